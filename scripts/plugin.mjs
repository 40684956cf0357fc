// Owns the folder in which the plugin is proved: this package packed, and installed from the tarball into copies of plugin/
// and of the clients that check the emulator, as users would install it. Nothing in it leads back here.

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { BuildError } from "./build.mjs";
import { npm } from "./npm.mjs";

/** What a work tree may hold that is not to be copied. */
const MADE = new Set(["node_modules", "dist", "python", "package-lock.json"]);

/**
 * @param {string} root the package's folder
 * @param {string} node the Node.js that compiles the plugin
 * @param {(scratch: {plugin: string, clients: string}) => Promise<T>} use is given the folders, which are gone afterwards
 * @returns {Promise<T>}
 * @template T
 */
export async function withInstalledPlugin(root, node, use) {
  const scratch = mkdtempSync(path.join(os.tmpdir(), "createos-plugin-"));
  try {
    npm(["pack", "--pack-destination", scratch], root);
    const [tarball] = readdirSync(scratch);
    const install = (/** @type {string} */ source) => {
      const folder = path.join(scratch, path.basename(source));
      cpSync(path.join(root, source), folder, { recursive: true, filter: (file) => !MADE.has(path.basename(file)) });
      npm(["install", "--ignore-scripts", "--no-package-lock", "--prefer-offline", path.join(scratch, tarball)], folder);
      return folder;
    };
    const plugin = install("plugin");
    const tsc = path.join(plugin, "node_modules", "typescript", "bin", "tsc");
    const { status } = spawnSync(node, [tsc, "--strict", "--project", plugin], { stdio: ["ignore", 2, 2] });
    if (status !== 0) throw new BuildError("The plugin does not compile against the packed createos-native; the messages are above.");
    return await use({ plugin, clients: install("__test__/clients") });
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
