<?php
// ?ms= of CPU, then ?w= of waiting as for a remote service, then ?kb= of HTML that names 14 parts.
function cpu() { $r = getrusage(); return ($r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec']) * 1e6 + $r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']; }
$from = cpu(); $ms = (int)($_GET['ms'] ?? 20); $w = (int)($_GET['w'] ?? 0);
if (!isset($_COOKIE['sid'])) setcookie('sid', bin2hex(random_bytes(13)), 0, '/');
$x = 'x'; while (cpu() - $from < $ms * 1000) for ($i = 0; $i < 100; $i++) $x = md5($x);
if ($w) usleep($w * 1000);
header('Cache-Control: no-cache');
echo '<!doctype html><html><head><title>x</title>';
for ($i = 0; $i < 8; $i++) echo "<link rel=\"stylesheet\" href=\"/s/$i.css\">";
for ($i = 0; $i < 6; $i++) echo "<img src=\"/s/$i.png\">";
echo '</head><body>', str_repeat("<p>Lorem ipsum dolor sit amet</p>\n", 32 * (int)($_GET['kb'] ?? 20)), '</body></html>';
