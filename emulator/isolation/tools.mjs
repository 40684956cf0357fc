// Where the system's tools are. They are named by absolute paths, because a command's own environment, with a PATH of
// its own, is what the tools that start it are given.
import { accessSync, constants } from "node:fs";
import path from "node:path";

const USUAL = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
const OWN = ["/tmp", "/root", "/paperclip-workspace"];

/**
 * @param {string} name
 * @returns {string|null} the tool's path, if it is one that a sandbox sees too
 */
export function findTool(name) {
  const inPath = (process.env.PATH ?? "").split(":").filter((entry) => entry.startsWith("/"));
  for (const directory of [...USUAL, ...inPath]) {
    if (OWN.some((own) => directory === own || directory.startsWith(`${own}/`))) continue;
    const candidate = path.join(directory, name);
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      // Not here.
    }
  }
  return null;
}

/**
 * @template {string} Name
 * @param {Name[]} names
 * @returns {Record<Name, string>} throws when one is missing
 */
export function findTools(names) {
  return Object.fromEntries(names.map((name) => {
    const found = findTool(name);
    if (!found) throw new Error(`${name} is not installed`);
    return [name, found];
  }));
}
