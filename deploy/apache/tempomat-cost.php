<?php
// Reports the cost of a request to tempomat-proxy. The response header
//
//     Tempomat-Cost: 0.012345
//
// is the CPU time in seconds that PHP and the programs that it ran used for the
// request (user and system time). Load this file with auto_prepend_file; see
// README.md in this directory. It prints nothing and stores nothing.
// For PHP 5.6 to 8.4.

if (PHP_SAPI !== 'cli' && !PHP_ZTS && function_exists('getrusage')
    && function_exists('header_register_callback') && !function_exists('tempomat_cost_cpu')) {

    /** CPU time of this process and of the children that it waited for, in seconds. */
    function tempomat_cost_cpu()
    {
        $sum = 0.0;
        foreach (array(0, 1) as $who) {
            $r = @getrusage($who);
            if (is_array($r)) {
                $sum += $r['ru_utime.tv_sec'] + $r['ru_stime.tv_sec']
                    + ($r['ru_utime.tv_usec'] + $r['ru_stime.tv_usec']) / 1e6;
            }
        }
        return $sum;
    }

    /** The first call records the start; later calls return the CPU time since then, in seconds. */
    function tempomat_cost_since_start()
    {
        static $start = null;
        if ($start === null) {
            $start = tempomat_cost_cpu();
        }
        return max(0.0, tempomat_cost_cpu() - $start);
    }

    /** Runs when PHP is about to send the headers, the last moment at which one can be added. */
    function tempomat_cost_send()
    {
        if (!headers_sent()) {
            header(sprintf('Tempomat-Cost: %.6F', tempomat_cost_since_start()));
        }
    }

    tempomat_cost_since_start();
    header_register_callback('tempomat_cost_send');

    // PHP sends the headers with the first output, so the header contains more of the
    // page's cost if output is buffered longer. If php.ini sets a buffer
    // (output_buffering, 4096 in the php.ini that PHP ships), replace it with a larger
    // one. The number of buffer levels stays the same, so pages that flush work as
    // before. If php.ini sets no buffer, don't add one: pages may rely on flush()
    // alone to send output.
    if (ob_get_level() === 1 && ob_get_length() === 0
        && ob_list_handlers() === array('default output handler')) {
        ob_end_clean();
        ob_start(null, 65536);
    }
}
