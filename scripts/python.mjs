// Owns the tools that come from Python's registry as binaries: each set in a virtual environment of its own below target/.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { BuildError } from "./build.mjs";

/**
 * The folder of a set's programs; installs them unless they are there.
 * @param {string} root the package's folder
 * @param {string} name of the set
 * @param {string[]} requirements with exact versions
 */
export function pythonTools(root, name, requirements) {
  const folder = path.join(root, "target", "python", name);
  const stamp = path.join(folder, "requirements.txt");
  const bin = path.join(folder, process.platform === "win32" ? "Scripts" : "bin");
  const wanted = `${requirements.join("\n")}\n`;
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return bin;

  const run = (/** @type {string} */ program, /** @type {string[]} */ args) => {
    const { status, error } = spawnSync(program, args, { stdio: ["ignore", 2, 2] });
    if (status !== 0) throw new BuildError(`${requirements.join(" and ")} could not be installed with Python: ${error?.message ?? "its messages are above"}.`);
  };
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  run(process.platform === "win32" ? "python" : "python3", ["-m", "venv", folder]);
  run(path.join(bin, "python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", ...requirements]);
  writeFileSync(stamp, wanted);
  return bin;
}
