// The HTTP server: finds the call, records it, lets the hook interfere, applies rate limit and key, and turns what the
// call's code returns or throws into an envelope. What the calls do is in routes/.
import { createHash, timingSafeEqual } from "node:crypto";
import http from "node:http";
import { Failure } from "./failure.mjs";
import { identifier, JSON_BYTES, parseObject, readBody } from "./request.mjs";
import { Response } from "./response.mjs";
import { ROUTES } from "./routes/index.mjs";

/**
 * @param {object} parts
 * @param {string} parts.key
 * @param {import("./sandboxes.mjs").Sandboxes} parts.sandboxes
 * @param {import("./sandbox.mjs").Surroundings} parts.surroundings
 * @param {import("./rate-limit.mjs").RateLimit|null} parts.rateLimit
 * @param {import("./index.mjs").Hooks} parts.hooks
 * @param {import("./recorder.mjs").Recorder} parts.recorder
 * @returns {http.Server} not listening yet
 */
export function createServer(parts) {
  const server = http.createServer((req, res) => {
    req.on("error", () => {});
    serve(parts, req, res).catch((error) => {
      // A client that leaves in the middle of its request is nobody's fault here.
      if (!req.destroyed && !res.destroyed) process.emitWarning(`createos-emulator: ${error?.stack ?? error}`);
      res.destroy();
    });
  });
  // Clients decide how long a connection is kept; a short limit here would race with their next request.
  server.keepAliveTimeout = 60_000;
  server.requestTimeout = 0;
  return server;
}

async function serve(parts, req, res) {
  const { pathname, searchParams } = new URL(req.url, "http://loopback");
  const found = ROUTES.find(({ method, pattern }) => method === req.method && pattern.test(pathname));
  const seen = parts.recorder.record(req, found?.route ?? "unknown");
  let body = null;
  if (found?.raw) {
    // The call reads the body itself; it is recorded as it passes. Paused, so that none passes before.
    req.pause().on("data", (chunk) => parts.recorder.addBody(seen, chunk));
  } else {
    body = await readBody(req, JSON_BYTES);
    if (body) parts.recorder.addBody(seen, body);
  }

  const action = await interfere(parts, seen, searchParams);
  if (action.hang) return;
  if (action.reset) return void req.socket.resetAndDestroy();
  const out = new Response(res, action);
  try {
    if (action.status !== undefined) return answerInstead(out, action);
    admit(parts, req);
    if (!found) throw new Failure(404, "no such call");
    await found.answer({
      ...parts, req, out, query: searchParams,
      ids: found.pattern.exec(pathname).slice(1).map(identifier),
      body: found.raw || req.method === "GET" ? {} : parseObject(body),
      success: (data, status = 200) => out.json(status, { status: "success", data }),
    });
  } catch (error) {
    refuse(out, error, res);
  } finally {
    // A body that nobody wanted would keep the connection from being used again.
    req.resume();
  }
}

/** Asks the hook. @returns {Promise<import("./index.mjs").HookAction>} */
async function interfere({ hooks, surroundings }, seen, query) {
  const action = (await hooks.request?.({ ...seen, query: Object.fromEntries(query) })) ?? {};
  if (action.delayMs) await new Promise((resolve) => surroundings.clock.setTimeout(resolve, action.delayMs));
  return action;
}

function answerInstead(out, { status, headers = {}, body = "" }) {
  if (typeof body === "string" || body instanceof Uint8Array) {
    const bytes = Buffer.from(body);
    out.head(status, { "content-length": bytes.length, ...headers });
    out.write(bytes);
    out.end();
  } else {
    out.json(status, body, headers);
  }
}

/** The checks that every call passes, in the endpoint's order: the limit counts callers without a key, too. */
function admit({ key, rateLimit }, req) {
  const seconds = rateLimit?.take() ?? 0;
  if (seconds > 0) throw Object.assign(new Failure(429, "too many requests"), { headers: { "retry-after": String(seconds) } });
  const given = req.headers["x-api-key"];
  if (typeof given !== "string" || !same(given, key)) throw new Failure(401, "missing or wrong API key");
}

function same(one, other) {
  const digest = (text) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

function refuse(out, error, res) {
  if (!(error instanceof Failure)) {
    if (!res.destroyed) process.emitWarning(`createos-emulator: ${error?.stack ?? error}`);
    error = new Failure(500, "internal error");
  }
  if (out.headSent) res.destroy();
  else out.json(error.status, error.envelope(), error.headers);
}
