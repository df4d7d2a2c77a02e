<?php
// Reports to tempomat-proxy which requests come from logged-in users, so these go first while the
// server is full. Visitors don't see the header. Add this to the end of LocalSettings.php
// (MediaWiki 1.39 and later):
//
//     require_once '/etc/mediawiki/tempomat-standing.php';
//
// If anyone can register on your wiki, send the header only for users whom you gave a group:
// replace $user->isNamed() with $user->isAllowed( 'autopatrol' ).
$wgTempomatStanding = static function ( $user, $request ) {
	if ( $user->isNamed() ) {
		$request->response()->header( 'Tempomat-Standing: yes' );
	}
};
$wgHooks['BeforeInitialize'][] = static function ( $title, $unused, $output, $user, $request ) use ( $wgTempomatStanding ) {
	$wgTempomatStanding( $user, $request );
};
$wgHooks['ApiBeforeMain'][] = static function ( $main ) use ( $wgTempomatStanding ) {
	$wgTempomatStanding( $main->getUser(), $main->getRequest() );
};
