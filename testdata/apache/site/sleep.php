<?php
// Waits ?ms= milliseconds without using the CPU, as for a slow database.
require __DIR__ . '/cpu.inc';
$ms = number('ms', 1000, 600000);
usleep($ms * 1000);
header('Content-Type: text/plain');
echo "slept $ms ms\n";
