// A scripted endpoint down to its bytes: each call of the API is answered by a handler of the test, which may write what
// it likes, in pieces, cut anywhere, by a reset or a clean end. Without a handler a healthy endpoint is played. It speaks
// HTTP/1.1, with TLS if asked to.
import net from "node:net";
import { after } from "node:test";
import { TLSSocket } from "node:tls";
import { SECRET } from "./secrets.mjs";

const ROUTES = [
  ["createSandbox", "POST", /^\/v1\/sandboxes$/],
  ["getSandbox", "GET", /^\/v1\/sandboxes\/[^/]+$/],
  ["destroySandbox", "DELETE", /^\/v1\/sandboxes\/[^/]+$/],
  ["pause", "POST", /\/pause$/],
  ["resume", "POST", /\/resume$/],
  ["exec", "POST", /\/exec$/],
  ["upload", "PUT", /\/files$/],
  ["download", "GET", /\/files$/],
  ["create", "POST", /\/processes$/],
  ["listProcesses", "GET", /\/processes$/],
  ["stdinClose", "POST", /\/stdin\/close$/],
  ["connect", "GET", /\/connect$/],
  ["wait", "GET", /\/wait$/],
  ["terminate", "DELETE", /\/processes\/[^/]+$/],
];

/** The call that a request is. */
export function routeOf(method, path) {
  const { pathname } = new URL(path, "http://loopback");
  return ROUTES.find((route) => route[1] === method && route[2].test(pathname))?.[0] ?? "unknown";
}

const EXIT = { type: "exit", exit_code: 0 };

/** What a healthy endpoint answers. */
export const HEALTHY = {
  createSandbox: (exchange) => exchange.success({ id: `sb_${exchange.count}` }),
  getSandbox: (exchange) => exchange.success({ id: exchange.path.split("/")[3], status: "running" }),
  destroySandbox: (exchange) => exchange.success({}),
  pause: (exchange) => exchange.success({}),
  resume: (exchange) => exchange.success({}),
  exec: (exchange) => exchange.success({ result: { exit_code: 0, stdout: "", stderr: "" } }),
  upload: (exchange) => exchange.success({}),
  download: (exchange) => exchange.answer(200, "content"),
  create: (exchange) => exchange.success({ process_id: `proc_${exchange.count}` }),
  listProcesses: (exchange) => exchange.success({ processes: [] }),
  stdinClose: (exchange) => exchange.success({}),
  connect: (exchange) => exchange.stream(EXIT),
  wait: (exchange) => exchange.fail(404),
  terminate: (exchange) => exchange.success({ tree_exited: true }),
  unknown: (exchange) => exchange.fail(418),
};

/** A data frame. */
export const data = (seq, text, stream = "stdout") => ({ type: "data", seq, stream, data_base64: Buffer.from(text).toString("base64") });
export const exit = (exit_code = 0) => ({ type: "exit", exit_code });
/** Frames as lines. */
export const lines = (...frames) => frames.map((frame) => `${JSON.stringify(frame)}\n`).join("");

/** The bytes of a whole response. */
export function response(status, headers, body = "") {
  const bytes = Buffer.from(body);
  const head = Object.entries({ "content-length": bytes.length, ...headers }).filter(([, value]) => value !== undefined).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return Buffer.concat([Buffer.from(`HTTP/1.1 ${status} Whatever\r\n${head}\r\n`), bytes]);
}

/** The bytes of one chunk of a chunked body. */
export const chunk = (bytes) => Buffer.concat([Buffer.from(`${Buffer.byteLength(bytes).toString(16)}\r\n`), Buffer.from(bytes), Buffer.from("\r\n")]);
export const STREAM_HEAD = Buffer.from("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n");
export const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** One request and what can be answered. */
export class Exchange {
  constructor(fields) {
    Object.assign(this, fields);
  }

  get query() {
    return Object.fromEntries(new URL(this.path, "http://loopback").searchParams);
  }

  /** Writes bytes as they are; resolves when they are on their way. */
  raw(bytes) {
    return new Promise((resolve) => (this.socket.writable ? this.socket.write(bytes, resolve) : resolve()));
  }

  answer(status, body, headers = {}) {
    const text = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    return this.raw(response(status, headers, text));
  }

  success(fields) {
    return this.answer(200, { status: "success", data: fields }, { "content-type": "application/json" });
  }

  /** A failure whose body holds a secret, as failures do. */
  fail(status, headers) {
    return this.answer(status, { status: "fail", data: { message: `${SECRET} body of ${this.path}`, key: this.headers["x-api-key"] } }, headers);
  }

  head() {
    return this.raw(STREAM_HEAD);
  }

  write(bytes) {
    return this.raw(chunk(bytes));
  }

  frames(...frames) {
    return this.write(lines(...frames));
  }

  end() {
    return this.raw(LAST_CHUNK);
  }

  /** A whole stream of frames. */
  async stream(...frames) {
    await this.raw(Buffer.concat([STREAM_HEAD, chunk(lines(...frames)), LAST_CHUNK]));
  }

  /** Ends the connection cleanly. */
  fin() {
    this.socket.end();
  }

  /** Resets the connection. */
  reset() {
    this.transport.resetAndDestroy();
  }

  /** Resolves when the client has gone. */
  gone() {
    return new Promise((resolve) => (this.socket.destroyed ? resolve() : this.socket.once("close", resolve)));
  }

  /** Never answers. */
  hang() {
    return this.gone();
  }
}

/**
 * Starts an endpoint that lives as long as the file's suite, or the test whose context is given. `connected` is called
 * with every new connection and may refuse to have it served by returning `false`.
 */
export async function startEndpoint(handlers = {}, { t, tls, connected = () => true } = {}) {
  return started(new RawEndpoint(handlers, tls, connected), t);
}

/** Starts listening; closed with the test, or with the file's suite. */
export async function started(endpoint, t) {
  await endpoint.listen();
  (t ? t.after.bind(t) : after)(() => endpoint.close());
  return endpoint;
}

/** What every endpoint does: answers by handlers, remembers requests, and fails the test whose handler fails. */
export class Endpoint {
  key = `key-${SECRET}`;
  /** @type {Exchange[]} */
  requests = [];
  /** How many connections were accepted. */
  connections = 0;
  /** Of an endpoint with TLS. */
  scheme = "http";
  #sockets = new Set();
  #faults = [];
  #waiters = new Set();
  #counts = {};

  constructor(handlers, server) {
    this.handlers = handlers;
    this.server = server.on("connection", (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on("error", () => {}).on("close", () => this.#sockets.delete(socket));
    });
  }

  async listen() {
    await new Promise((resolve, reject) => this.server.once("error", reject).listen(0, "127.0.0.1", resolve));
    this.url = `${this.scheme}://127.0.0.1:${this.server.address().port}`;
  }

  /** Answers a request; resolves when its handler is done. */
  async take(exchange) {
    exchange.route = routeOf(exchange.method, exchange.path);
    /** When it had come in whole. */
    exchange.at = performance.now();
    exchange.count = this.#counts[exchange.route] = (this.#counts[exchange.route] ?? 0) + 1;
    this.requests.push(exchange);
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
    try {
      await (this.handlers[exchange.route] ?? HEALTHY[exchange.route])(exchange);
    } catch (error) {
      this.#faults.push(error);
      exchange.transport.destroy();
    }
  }

  /** Requests of a route. */
  of(route) {
    return this.requests.filter((request) => request.route === route);
  }

  /** Resolves once so many requests of a route have come in. */
  async seen(route, count = 1) {
    while (this.of(route).length < count) await new Promise((resolve) => this.#waiters.add(resolve));
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
    if (this.#faults.length > 0) throw this.#faults[0];
  }
}

class RawEndpoint extends Endpoint {
  constructor(handlers, tls, connected) {
    super(handlers, net.createServer({ noDelay: true }));
    if (tls) this.scheme = "https";
    this.server.on("connection", (transport) => {
      const number = this.connections;
      if (connected(transport, number) === false) return;
      const socket = tls ? new TLSSocket(transport, { isServer: true, ...tls }) : transport;
      socket.on("error", () => {});
      this.#serve(socket, transport, number);
    });
  }

  #serve(socket, transport, connection) {
    let buffered = Buffer.alloc(0);
    let busy = false;
    let number = 0;
    const next = async () => {
      if (busy) return;
      const end = buffered.indexOf("\r\n\r\n");
      if (end < 0) return;
      const [start, ...fields] = buffered.toString("latin1", 0, end).split("\r\n");
      const headers = Object.fromEntries(fields.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]));
      const length = Number(headers["content-length"] ?? 0);
      if (buffered.length < end + 4 + length) return;
      const body = buffered.subarray(end + 4, end + 4 + length);
      buffered = buffered.subarray(end + 4 + length);
      const [method, path] = start.split(" ");
      busy = true;
      await this.take(new Exchange({ method, path, headers, body, connection, onConnection: ++number, socket, transport }));
      busy = false;
      await next();
    };
    socket.on("data", (bytes) => {
      buffered = buffered.length === 0 ? bytes : Buffer.concat([buffered, bytes]);
      next();
    });
  }
}
