<?php
/*
Plugin Name: tempomat standing
Description: Tells tempomat-proxy who is logged in, so that these people go first while others wait. No client sees it.

Copy this file to wp-content/mu-plugins/ ("must use": nothing has to be switched on). Where
anybody may register, vouch for those only whom somebody gave a role: in place of
is_user_logged_in() take current_user_can( 'edit_posts' ).
*/
add_action( 'init', function () {
	if ( is_user_logged_in() && ! headers_sent() ) {
		header( 'Tempomat-Standing: yes' );
	}
} );
