// The scripted endpoint over TLS with HTTP/2, which both sides agree upon by ALPN. Streams and sessions can be ended in
// all the ways that the protocol has.
import http2 from "node:http2";
import { Endpoint, Exchange, started } from "./endpoint.mjs";
import { TLS } from "./tls.mjs";

class Http2Exchange extends Exchange {
  async answer(status, body, headers = {}) {
    if (this.stream2.destroyed) return;
    this.stream2.respond({ ":status": status, ...headers });
    this.stream2.end(typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body));
  }

  async head() {
    if (!this.stream2.destroyed) this.stream2.respond({ ":status": 200, "content-type": "application/x-ndjson" });
  }

  write(bytes) {
    return new Promise((resolve) => (this.stream2.writable ? this.stream2.write(bytes, resolve) : resolve()));
  }

  async end() {
    this.stream2.end();
  }

  async stream(...frames) {
    await this.head();
    await this.frames(...frames);
    await this.end();
  }

  /** Ends this stream alone, by RST_STREAM. */
  rst(code) {
    this.stream2.close(code);
  }

  /** Says that streams after `last` were not and will not be looked at, and closes the connection if told so. */
  goaway(code, last, close = true) {
    this.stream2.session.goaway(code, last);
    // What was said should be on its way before the connection ends.
    if (close) setImmediate(() => this.transport.end());
  }

  gone() {
    return new Promise((resolve) => (this.stream2.destroyed ? resolve() : this.stream2.once("close", resolve)));
  }
}

class Http2Endpoint extends Endpoint {
  scheme = "https";

  constructor(handlers, options) {
    super(handlers, http2.createSecureServer({ ...TLS, ...options }));
    const transports = new Map();
    this.server.on("connection", (transport) => transports.set(transport.remotePort, [transport, this.connections]));
    this.server.on("session", (session) => session.on("error", () => {}));
    this.server.on("stream", async (stream, headers) => {
      stream.on("error", () => {});
      const [transport, connection] = transports.get(stream.session.socket.remotePort);
      const chunks = [];
      try {
        for await (const chunk of stream) chunks.push(chunk);
      } catch {
        return; // The client took its request back.
      }
      const { ":method": method, ":path": path, ...rest } = headers;
      const alpn = stream.session.alpnProtocol;
      await this.take(new Http2Exchange({ method, path, headers: rest, body: Buffer.concat(chunks), connection, alpn, socket: transport, transport, stream2: stream }));
    });
  }
}

export async function startHttp2Endpoint(handlers = {}, { t, ...options } = {}) {
  return started(new Http2Endpoint(handlers, options), t);
}
