<?php
/*
Plugin Name: tempomat standing
Description: Reports to tempomat-proxy which requests come from logged-in users, so these go first while the server is full. Visitors don't see the header.

Copy this file to wp-content/mu-plugins/; WordPress loads such "must-use" plugins automatically.
If anyone can register on your site, send the header only for users whom you gave a role:
replace is_user_logged_in() with current_user_can( 'edit_posts' ).
*/
add_action( 'init', function () {
	if ( is_user_logged_in() && ! headers_sent() ) {
		header( 'Tempomat-Standing: yes' );
	}
} );
