# Reports to tempomat-proxy which process serves a request, so the proxy can charge the request for
# the CPU time of that process. Set cost.socket in tempomat.yaml. This file is for Rack servers
# whose workers serve one request at a time: puma with "workers N" and "threads 1, 1", or unicorn.
#
#   require "tempomat_worker"
#   use TempomatWorker
#
# If the proxy or its socket is missing, it does nothing. For Ruby 2.5 and later.

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
    nil # no program listens: the report is lost
  end
end
