<?php
// Reports to tempomat-proxy which process serves a request, so the proxy can charge the request for
// the CPU time of that process. Set cost.socket in tempomat.yaml, and load this file with
// auto_prepend_file; see README.md in this directory. It prints nothing, stores nothing and never
// waits. If the proxy or its socket is missing, it does nothing. For PHP 5.6 to 8.4.

if (isset($_SERVER['HTTP_TEMPOMAT_REQUEST']) && PHP_SAPI !== 'cli' && !PHP_ZTS
    && function_exists('stream_socket_client') && !function_exists('tempomat_worker_tell')) {

    /** Reports that this process is beginning to serve the request ('+') or has finished ('-'). */
    function tempomat_worker_tell($what)
    {
        static $socket = null, $number = '';
        // The site's own error handler must not see failures of this file.
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
            @fwrite($socket, $what . $number); // if the socket's buffer is full, the report is lost
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
