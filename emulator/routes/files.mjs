// Files of a sandbox, read and written in the sandbox's own view: symbolic links lead where they would lead a command.
// Bodies are streamed and never held whole.
import { createWriteStream } from "node:fs";
import { lstat, mkdir, open, readlink, rm } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { Failure } from "../failure.mjs";

/** As many links as the kernel follows (path_resolution(7)). */
const MAX_LINKS = 40;

/** @param {import("./index.mjs").Call} call */
export async function upload(call) {
  const { sandboxes, ids, query, req, success } = call;
  const sandbox = sandboxes.get(ids[0]);
  await sandbox.requireRunning();
  const file = await resolve(sandbox.rootPath, requested(query));
  await judged(async () => {
    await mkdir(path.dirname(file), { recursive: true });
    // An upload that is cut leaves no half of a file.
    await pipeline(req, createWriteStream(file, { mode: 0o644 })).catch(async (error) => {
      await rm(file, { force: true });
      throw error;
    });
  });
  success({});
}

/** @param {import("./index.mjs").Call} call */
export async function download(call) {
  const { sandboxes, ids, query, out } = call;
  const sandbox = sandboxes.get(ids[0]);
  await sandbox.requireRunning();
  const file = await resolve(sandbox.rootPath, requested(query));
  await judged(async () => {
    // A FIFO would make opening wait for a writer, so what it is comes first.
    if (!(await lstat(file)).isFile()) throw new Failure(400, "not a regular file");
    const handle = await open(file, "r");
    // No length is promised: somebody may be writing, and the kernel makes up what is in /proc.
    out.head(200, { "content-type": "application/octet-stream" });
    let drained = () => {};
    out.onDrain(() => drained());
    out.onClose(() => drained());
    for await (const chunk of handle.createReadStream()) {
      if (out.closed) break;
      if (!out.write(chunk) && !out.closed) await new Promise((resume) => (drained = resume));
    }
    out.end();
  });
}

function requested(query) {
  const name = query.get("path");
  if (!name || !name.startsWith("/") || name.includes("\0")) throw new Failure(400, "path must be absolute");
  return name;
}

/**
 * Where a path of the sandbox is for the emulator. Links are followed here, one by one, because the kernel would follow
 * an absolute one from the emulator's root and not from the sandbox's.
 * @param {string} root
 * @param {string} name
 */
async function resolve(root, name) {
  const todo = name.split("/").filter(Boolean);
  let done = [];
  let links = 0;
  while (todo.length > 0) {
    const part = todo.shift();
    if (part === ".") continue;
    if (part === "..") {
      done.pop();
      continue;
    }
    const here = `${root}/${[...done, part].join("/")}`;
    const target = await readlink(here).catch(() => null);
    if (target === null) {
      done.push(part);
      continue;
    }
    if (++links > MAX_LINKS) throw new Failure(400, "too many symbolic links");
    if (target.startsWith("/")) done = [];
    todo.unshift(...target.split("/").filter(Boolean));
  }
  return `${root}/${done.join("/")}`;
}

/** Turns what the file system refuses into answers. */
async function judged(action) {
  try {
    return await action();
  } catch (error) {
    if (error instanceof Failure) throw error;
    const status = { ENOENT: 404, EISDIR: 400, ENOTDIR: 400, EEXIST: 400, ENAMETOOLONG: 400, EACCES: 403, EPERM: 403, EROFS: 403 }[error.code];
    throw new Failure(status ?? 500, `the file could not be transferred (${error.code ?? "unknown"})`);
  }
}
