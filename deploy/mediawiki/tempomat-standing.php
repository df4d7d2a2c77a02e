<?php
// Tells tempomat-proxy who is logged in, so that these people go first while others wait. No
// client sees it. At the end of LocalSettings.php (MediaWiki 1.39 and later):
//
//     require_once '/etc/mediawiki/tempomat-standing.php';
//
// Where anybody may register, vouch for those only whom somebody gave a group: in place of
// $user->isNamed() take $user->isAllowed( 'autopatrol' ).
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
