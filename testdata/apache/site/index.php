<?php
header('Content-Type: text/html; charset=utf-8');
$for = isset($_SERVER['HTTP_X_FORWARDED_FOR']) ? $_SERVER['HTTP_X_FORWARDED_FOR'] : '(none: this request came straight to Apache)';
$pages = array(
    'page.php?ms=5' => 'a light page: 5 ms of CPU',
    'page.php?ms=50' => 'an ordinary page: 50 ms of CPU',
    'page.php?ms=1000' => 'a heavy page: 1 s of CPU',
    'sleep.php?ms=1000' => 'a page that waits for 1 s and needs no CPU',
    'sse.php?ms=500' => 'five events, one every 500 ms',
    'download.php?mb=10' => '10 MB, streamed',
    'headers.php?a=1;b=2' => 'what arrives at the backend',
    'style.css' => 'a static file',
);
?>
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tempomat demo site</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<header><img src="logo.svg" alt="" width="48" height="48"><h1>tempomat demo site</h1></header>
<p>Apache and PHP serve this page. Your address, as they were told it:
<code><?php echo htmlspecialchars($for); ?></code></p>
<ul>
<?php foreach ($pages as $url => $what) { ?>
<li><a href="<?php echo htmlspecialchars($url); ?>"><?php echo htmlspecialchars($url); ?></a> <span><?php echo $what; ?></span></li>
<?php } ?>
</ul>
<p>Reload a heavy page a few times: the proxy counts what you cost, and once your
credit is used up it makes you wait.</p>
</body>
</html>
