// What the calls carry: bodies, parameters, identifiers; read and checked here, refused with 400 or 413.
import { Failure } from "./failure.mjs";

/** The largest JSON body; arguments, environment and standard input of a command are within it. */
export const JSON_BYTES = 16 * 1024 * 1024;
const IDENTIFIER = /^[A-Za-z0-9_-]{1,200}$/;

/**
 * @param {import("node:http").IncomingMessage} req
 * @param {number} limit
 * @returns {Promise<Buffer|null>} null when it is larger than `limit`; the rest is read and dropped, so that the
 *   answer reaches a client that is still writing
 */
export async function readBody(req, limit = JSON_BYTES) {
  const chunks = [];
  let length = 0;
  for await (const chunk of req) {
    length += chunk.length;
    if (length <= limit) chunks.push(chunk);
    else chunks.length = 0;
  }
  return length <= limit ? Buffer.concat(chunks) : null;
}

/** @param {Buffer|null} body @returns {Record<string, any>} */
export function parseObject(body) {
  if (body === null) throw new Failure(413, "the body is too large");
  if (body.length === 0) return {};
  let value;
  try {
    value = JSON.parse(body.toString("utf8"));
  } catch {
    throw new Failure(400, "the body is not JSON");
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Failure(400, "the body is not an object");
  return value;
}

/** @param {string} text one segment of a path, still encoded */
export function identifier(text) {
  let id = "";
  try {
    id = decodeURIComponent(text);
  } catch {
    // Refused below.
  }
  if (!IDENTIFIER.test(id)) throw new Failure(400, "invalid identifier");
  return id;
}

/**
 * A command's members of a request: `cmd`, `args`, `cwd`, `env`.
 * @param {Record<string, any>} body
 */
export function commandOf({ cmd, args = [], cwd, env }) {
  if (!isText(cmd) || cmd === "") throw new Failure(400, "cmd must be a non-empty string");
  if (!Array.isArray(args) || !args.every(isText)) throw new Failure(400, "args must be a list of strings");
  if (cwd !== undefined && !isText(cwd)) throw new Failure(400, "cwd must be a string");
  return { cmd, args, cwd, env: environment(env) };
}

/** @param {unknown} value @returns {Record<string, string>|undefined} */
export function environment(value) {
  if (value === undefined) return undefined;
  const valid = value !== null && typeof value === "object" && !Array.isArray(value)
    && Object.entries(value).every(([key, text]) => /^[^=\0]+$/.test(key) && isText(text));
  if (!valid) throw new Failure(400, "an environment maps names to strings");
  return value;
}

/** A string that the kernel can take. */
const isText = (value) => typeof value === "string" && !value.includes("\0");

/**
 * @param {URLSearchParams} query
 * @param {string} name
 * @param {number} fallback
 * @param {number} max
 */
export function wholeNumber(query, name, fallback, max = Number.MAX_SAFE_INTEGER) {
  const text = query.get(name);
  if (text === null || text === "") return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value > max) throw new Failure(400, `${name} must be an integer from 0 to ${max}`);
  return value;
}
