<?php
// Uses as many milliseconds of CPU time as ?ms= says.
header('Content-Type: text/plain; charset=utf-8');
$ms = isset($_GET['ms']) ? max(0, min(10000, (int)$_GET['ms'])) : 5;
function cpu() {
    $r = getrusage();
    return $r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec'] + ($r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']) / 1e6;
}
for ($start = cpu(), $x = 'x'; cpu() - $start < $ms / 1000;) {
    for ($i = 0; $i < 200; $i++) {
        $x = md5($x);
    }
}
echo gethostname(), " used ", $ms, " ms of CPU time\n";
