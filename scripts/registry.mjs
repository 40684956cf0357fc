// Owns a registry on this machine: it has the packages of a folder of tarballs, as if they were published, and sends whoever
// asks for anything else on to the registry that npm is set up for.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { cleanEnvironment, npmCommand } from "./npm.mjs";

/** The registry of everything else. */
function upstream() {
  const [program, ...first] = npmCommand();
  const { stdout } = spawnSync(program, [...first, "config", "get", "registry"], { env: cleanEnvironment(), encoding: "utf8", shell: program === "npm" && process.platform === "win32" });
  return stdout.trim().replace(/\/$/, "");
}

/**
 * A package's document, as registries have it.
 * @param {string} tarball
 * @param {string} url where the tarball will be
 */
function documentOf(tarball, url) {
  const { stdout } = spawnSync("tar", ["-xzOf", tarball, "package/package.json"], { encoding: "utf8" });
  const manifest = JSON.parse(stdout);
  const { name, version } = manifest;
  const content = readFileSync(tarball);
  const dist = {
    tarball: url, shasum: createHash("sha1").update(content).digest("hex"),
    integrity: `sha512-${createHash("sha512").update(content).digest("base64")}`,
  };
  return { name, "dist-tags": { latest: version }, versions: { [version]: { ...manifest, _id: `${name}@${version}`, dist } } };
}

/**
 * @param {string} folder
 * @returns {Promise<{url: string, close(): Promise<void>}>}
 */
export async function startRegistry(folder) {
  const others = upstream();
  const tarballs = readdirSync(folder).filter((file) => file.endsWith(".tgz"));
  /** @type {Map<string, object>} */
  const documents = new Map();
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent((request.url ?? "/").slice(1));
    const document = documents.get(name);
    if (document) response.setHeader("content-type", "application/json").end(JSON.stringify(document));
    else if (tarballs.includes(name)) response.end(readFileSync(path.join(folder, name)));
    else response.writeHead(307, { location: others + request.url }).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const url = `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (server.address()).port}`;
  for (const file of tarballs) {
    const document = documentOf(path.join(folder, file), `${url}/${file}`);
    documents.set(document.name, document);
  }
  return {
    url: `${url}/`,
    close: () => new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    }),
  };
}
