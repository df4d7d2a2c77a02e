# Tells tempomat-proxy which process serves a request, so that the CPU time that the kernel
# counts for it is that request's: cost.socket of tempomat.yaml. For Rack servers whose
# workers serve one request at a time: puma with "workers N" and "threads 1, 1", unicorn.
#
#   require "tempomat_worker"
#   use TempomatWorker
#
# Without the proxy, or its socket, it does nothing. Ruby 2.5 and later.

require "rack/body_proxy"
require "socket"

class TempomatWorker
  def initialize(app, path = "/run/tempomat/worker.sock")
    @app = app
    @address = Socket.sockaddr_un(path)
    @socket = Socket.new(:UNIX, :DGRAM)
  end

  def call(env)
    number = env["HTTP_TEMPOMAT_REQUEST"]
    return @app.call(env) unless number

    tell("+", number)
    begin
      status, headers, body = @app.call(env)
    rescue Exception
      tell("-", number)
      raise
    end
    [status, headers, Rack::BodyProxy.new(body) { tell("-", number) }]
  end

  def tell(what, number)
    @socket.sendmsg_nonblock(what + number, 0, @address, exception: false)
  rescue SystemCallError
    nil # no program listens: it is not told
  end
end
