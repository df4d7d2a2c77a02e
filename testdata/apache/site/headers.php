<?php
// Tells what arrived. Set ?status= for another status, ?set=Name:Value for a
// response header.
require __DIR__ . '/cpu.inc';
$status = number('status', 200, 599);
http_response_code($status >= 200 ? $status : 200);
if (isset($_GET['set']) && is_string($_GET['set'])) {
    header($_GET['set'], false);
}
header('Content-Type: application/json');
$env = array();
foreach (array('REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'SERVER_PROTOCOL', 'PATH_INFO', 'REMOTE_ADDR', 'REMOTE_PORT', 'HTTP_HOST') as $k) {
    $env[$k] = isset($_SERVER[$k]) ? $_SERVER[$k] : '';
}
echo json_encode(array(
    'method' => $env['REQUEST_METHOD'],
    'uri' => $env['REQUEST_URI'],
    'query' => $env['QUERY_STRING'],
    'protocol' => $env['SERVER_PROTOCOL'],
    'path_info' => $env['PATH_INFO'],
    'remote_addr' => $env['REMOTE_ADDR'],
    'remote_port' => $env['REMOTE_PORT'],
    'host' => $env['HTTP_HOST'],
    'headers' => getallheaders(),
), JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_FORCE_OBJECT), "\n";
