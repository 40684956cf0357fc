// The emulator, used by the endpoint's public client for Python. What that client must see is in pypi_client.py.

import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { it } from "node:test";
import { promisify } from "node:util";
import { startEmulator } from "createos-native/emulator";

const PACKAGES = "python";

/** Why the client cannot be installed here; false when it can. */
function obstacle() {
  const { status } = spawnSync("python3", ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]);
  if (status !== 0) return "there is no python3 of version 3.10 or newer here";
  return spawnSync("python3", ["-m", "pip", "--version"]).status === 0 ? false : "python3 has no pip here";
}

it("serves the Python client: sandboxes, commands, files and managed processes", { skip: obstacle() }, async (t) => {
  const python = promisify(execFile).bind(null, "python3");
  const { env, cwd } = { env: { ...process.env, PIP_ROOT_USER_ACTION: "ignore" }, cwd: import.meta.dirname };
  await python(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--target", PACKAGES, "--requirement", "requirements.txt"], { cwd, env });

  const emulator = await startEmulator();
  t.after(() => emulator.close());
  const settings = { PYTHONPATH: PACKAGES, PYTHONDONTWRITEBYTECODE: "1", CREATEOS_SANDBOX_BASE_URL: emulator.url, CREATEOS_API_KEY: emulator.key };
  const { stderr } = await python(["-m", "unittest", "--verbose", "pypi_client"], { cwd, env: { ...env, ...settings } });
  const ran = stderr.match(/^test_\w+ .*ok$/gm) ?? [];
  t.diagnostic(ran.map((line) => line.split(" ")[0]).join(", "));
  assert.match(stderr, new RegExp(`^Ran ${ran.length} tests in `, "m"));
  assert.ok(ran.length > 0 && !/skipped/.test(stderr), stderr);
});
