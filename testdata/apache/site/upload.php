<?php
// Reads the request's body in pieces and tells its length and checksums. (PHP
// itself spools what it reads from php://input to a temporary file.)
header('Content-Type: application/json');
$in = fopen('php://input', 'rb');
$crc = hash_init('crc32b');
$sha = hash_init('sha1');
$length = 0;
while (!feof($in)) {
    $piece = fread($in, 65536);
    if ($piece === false || $piece === '') {
        break;
    }
    $length += strlen($piece);
    hash_update($crc, $piece);
    hash_update($sha, $piece);
}
echo json_encode(array(
    'method' => $_SERVER['REQUEST_METHOD'],
    'length' => $length,
    'crc32' => hash_final($crc),
    'sha1' => hash_final($sha),
)), "\n";
