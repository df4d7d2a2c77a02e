<?php
// Tells tempomat-proxy which process serves a request, so that the CPU time that the kernel
// counts for it is that request's: cost.socket of tempomat.yaml. For php.ini's
// auto_prepend_file; see README.md beside this file. Needs nothing, keeps nothing, prints
// nothing, waits for nothing. Without the proxy, or its socket, it does nothing.
// PHP 5.6 to 8.4.

if (isset($_SERVER['HTTP_TEMPOMAT_REQUEST']) && PHP_SAPI !== 'cli' && !PHP_ZTS
    && function_exists('stream_socket_client') && !function_exists('tempomat_worker_tell')) {

    /** Says that this process begins ('+') or has ended ('-') to serve the request. */
    function tempomat_worker_tell($what)
    {
        static $socket = null, $number = '';
        // Whatever goes wrong is nobody's error: the site's own handler is not to see it.
        set_error_handler('tempomat_worker_ignore');
        if ($socket === null) {
            $path = getenv('TEMPOMAT_SOCKET');
            $number = (string)$_SERVER['HTTP_TEMPOMAT_REQUEST'];
            $socket = @stream_socket_client('udg://' . ($path ? $path : '/run/tempomat/worker.sock'));
            if ($socket) {
                stream_set_blocking($socket, false);
            }
        }
        if ($socket) {
            @fwrite($socket, $what . $number); // no room: it is not told
        }
        restore_error_handler();
    }

    function tempomat_worker_ignore()
    {
        return true;
    }

    tempomat_worker_tell('+');
    register_shutdown_function('tempomat_worker_tell', '-');
}
