<?php
// Burns ?ms= milliseconds of CPU time (not wall time: when 16 of these share two
// cores each takes eight times as long), logs "time client cpu_us" to the file
// named by SITE_LOG and answers with about 6 KB of HTML.
require __DIR__ . '/cpu.inc';
$start = cpu_us();
$ms = number('ms', 20, 60000);
$x = 'x';
while (cpu_us() - $start < $ms * 1000) {
    for ($i = 0; $i < 200; $i++) {
        $x = md5($x);
    }
}
$spent = cpu_us() - $start;
$for = isset($_SERVER['HTTP_X_FORWARDED_FOR']) ? $_SERVER['HTTP_X_FORWARDED_FOR'] : '-';
$hops = explode(',', $for);
$client = preg_replace('/\s+/', '', $hops[0]);
// Before any output: PHP ends a script whose client is gone at its first output,
// and the CPU has been spent all the same.
if (getenv('SITE_LOG')) {
    file_put_contents(getenv('SITE_LOG'), sprintf("%.3f %s %d\n", microtime(true), $client, $spent), FILE_APPEND);
}
if (function_exists('apache_note')) {
    apache_note('cpu_us', (string)$spent);
}
header('Content-Type: text/html; charset=utf-8');
echo "<!doctype html>\n<html lang=\"en\"><head><title>A page</title><link rel=\"stylesheet\" href=\"style.css\"></head><body>\n",
    '<h1>A page of ', $ms, " ms</h1>\n<p>", $x, "</p>\n",
    str_repeat("<p>Lorem ipsum dolor sit amet</p>\n", 170), "</body></html>\n";
