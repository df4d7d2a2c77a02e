<?php
// Sends ?n= (5) server-sent events, each flushed at once, ?ms= (200) apart.
require __DIR__ . '/cpu.inc';
unbuffered();
header('Content-Type: text/event-stream');
header('Cache-Control: no-store');
$n = number('n', 5, 100000);
$ms = number('ms', 200, 60000);
for ($i = 1; $i <= $n; $i++) {
    echo "id: $i\ndata: event $i of $n\n\n";
    flush();
    if ($i < $n) {
        usleep($ms * 1000);
    }
}
