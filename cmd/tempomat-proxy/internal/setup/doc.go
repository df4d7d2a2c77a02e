// Package setup puts tempomat-proxy before the web server of a machine, and takes that
// back: "tempomat-proxy setup".
//
// # What it does
//
// Gather describes the machine, Decide makes of that a Plan, Show prints it, and with
// -write it is carried out. Only Gather, and carrying out, touch the machine; what is
// decided, is decided by pure functions, which tables test.
//
// The web server (Apache or nginx, in Debian's layout) leaves the port where the public
// asks for one on the loopback, and tempomat-proxy takes it. The lines of listening are
// exchanged and nothing else, in place, so that a person can read what was done and
// other programs still find the files as they know them. One new file lets the server
// see the clients' addresses.
//
// Apache's sites lose their port (<VirtualHost *:80> becomes <VirtualHost *>), as Apache
// would write the port of the loopback into its own redirects otherwise; nginx is told
// port_in_redirect off, for the same reason.
//
// # TLS
//
// If there are sites with TLS, tempomat-proxy ends it, with the certificate files that
// the server's configuration names, and asks the server over TLS again, on the loopback.
// The two other ways are worse for a machine that nobody watches:
//
//   - The server ends TLS and sends requests to tempomat-proxy, which sends them back to
//     it. With Apache each request that waits then holds one of Apache's workers, and a
//     crowd that waits takes all of them: the pages that are to run find none. That is
//     the failure which tempomat-proxy is there for.
//   - tempomat-proxy asks the server without TLS, and names the scheme in a header. Then
//     everything that looks whether TLS is there finds none: "RewriteCond %{HTTPS} off" in
//     an .htaccess, fastcgi_param HTTPS, $scheme. Each is a redirect in a circle, and
//     setup sees only some of them. Over TLS the site sees what it saw before; on the
//     loopback, and with connections kept, that costs little.
//
// The port for plain requests stays with the server then. Mostly nothing but redirects to
// https is served there, and Debian's 000-default; setup names sites whose pages go past the
// proxy that way. So certbot's own ways to renew (apache, nginx, webroot) go on as before: they need the
// server on port 80. The proxy is not root, and reads the keys by its group; certbot keeps
// group and mode of a key when it renews.
//
// # All or nothing
//
// A journal with all former texts, modes and links is written before the first change
// (/etc/tempomat/setup.json). If a step fails, if the server's own check, or
// tempomat-proxy -check, says no, or if a site does not answer afterwards as it did
// before, everything is taken back by the journal; -undo does the same later, also after
// a crash. Files that were edited since lose only setup's own lines, which are found by what
// stands around them. What cannot be put back is named, and the rest is done.
//
// The servers are reloaded, not restarted, and the proxy is only asked to end: so requests
// under way finish, and the port has no listener for as long as one of them needs to take it
// over. -undo does that last, and only once the server's check has passed and the server
// would listen on the port; until then, and otherwise, the proxy serves on.
//
// # Again
//
// Setup that has been here looks for sites that were added since for the port which the proxy
// took over, and moves them. Without systemd the files are changed and the commands for
// switching over are printed; -undo switches over itself, and ends the proxy that listens on
// the port.
//
// What setup does not understand it does not touch: an Obstacle says what, why, and what
// to do instead.
package setup
