// A sandbox by bubblewrap, for hosts where it is installed (some allow new user namespaces to it alone). The layout is
// the one of namespaces.mjs.
import { lstatSync, readdirSync, readlinkSync } from "node:fs";
import path from "node:path";
import { Holder, HOLD } from "./holder.mjs";
import { makeOwnDirectories, OWN_PATHS } from "./namespaces.mjs";
import { findTools } from "./tools.mjs";

/**
 * @param {string} directory an empty directory for this sandbox
 * @returns {Promise<Holder>}
 */
export function openBubblewrap(directory) {
  const { bwrap, sh } = findTools(["bwrap", "sh"]);
  makeOwnDirectories(directory);
  return Holder.start([
    bwrap, "--unshare-user", "--uid", "0", "--gid", "0", "--unshare-pid", "--as-pid-1", "--die-with-parent",
    "--cap-add", "ALL", ...hostEntries(), "--proc", "/proc",
    ...Object.entries(OWN_PATHS).flatMap(([mount, kept]) => ["--bind", path.join(directory, kept), mount]),
    "--chdir", "/", "--", sh, "-c", HOLD,
  ]);
}

/** The arguments that show the host's top-level entries in the sandbox. */
function hostEntries() {
  return readdirSync("/").flatMap((name) => {
    const entry = `/${name}`;
    if (entry === "/proc" || Object.hasOwn(OWN_PATHS, entry)) return [];
    const kind = lstatSync(entry);
    if (kind.isSymbolicLink()) return ["--symlink", readlinkSync(entry), entry];
    return kind.isDirectory() || kind.isFile() ? ["--dev-bind-try", entry, entry] : [];
  });
}
