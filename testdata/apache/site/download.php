<?php
// Streams ?mb= megabytes (2^20 bytes) in pieces of 64 KB; every piece is the same
// 64 KB of the bytes 0 to 255 repeated. ?length=1 announces the length.
require __DIR__ . '/cpu.inc';
set_time_limit(0);
unbuffered();
$mb = number('mb', 1, 16384);
header('Content-Type: application/octet-stream');
if (number('length', 0, 1)) {
    header('Content-Length: ' . $mb * 1048576);
}
$piece = str_repeat(implode('', array_map('chr', range(0, 255))), 256);
for ($i = 0; $i < $mb * 16; $i++) {
    echo $piece;
    flush();
}
