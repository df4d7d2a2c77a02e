<?php
// Tells tempomat-proxy what a request cost: the response header
//
//     Tempomat-Cost: 0.012345
//
// is the CPU time, in seconds, that PHP used for the request (user and system
// time, programs that it ran included). For php.ini's auto_prepend_file; see
// README.md beside this file. Needs nothing, keeps nothing, prints nothing.
// PHP 5.6 to 8.4.

if (PHP_SAPI !== 'cli' && !PHP_ZTS && function_exists('getrusage')
    && function_exists('header_register_callback') && !function_exists('tempomat_cost_cpu')) {

    /** CPU time of this process and of the children it waited for, in seconds. */
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

    /** The time at the first call is the start; later calls tell what came after it. */
    function tempomat_cost_since_start()
    {
        static $start = null;
        if ($start === null) {
            $start = tempomat_cost_cpu();
        }
        return max(0.0, tempomat_cost_cpu() - $start);
    }

    /** Runs when PHP is about to send the response's header: the latest moment there is. */
    function tempomat_cost_send()
    {
        if (!headers_sent()) {
            header(sprintf('Tempomat-Cost: %.6F', tempomat_cost_since_start()));
        }
    }

    tempomat_cost_since_start();
    header_register_callback('tempomat_cost_send');

    // Output that waits in a buffer keeps the header waiting, so the cost of a
    // whole small page gets in. Where php.ini has a buffer (output_buffering,
    // 4096 in the php.ini that PHP ships) a larger one takes its place: as many
    // levels as before, so pages that flush do what they always did. Where it has
    // none, pages may count on flush() alone; nothing is changed for them.
    if (ob_get_level() === 1 && ob_get_length() === 0
        && ob_list_handlers() === array('default output handler')) {
        ob_end_clean();
        ob_start(null, 65536);
    }
}
