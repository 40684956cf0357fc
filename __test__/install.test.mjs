// What arrives in another project when the package is installed there: from a folder, a tarball, a git URL; and what
// someone reads who lacks the tools to build it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { cleanEnvironment, npmCommand } from "../scripts/npm.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const EXPORTS = [
  "CreateosApiError", "CreateosCleanupError", "CreateosClient", "CreateosError", "CreateosLoadError", "CreateosProvider", "createProvider",
  "execute", "parseConfig", "release", "shellQuote", "shutdown",
];

/** Everything that a user gets, besides the one file that is named after the platform. */
const PACKED = `
  LICENSE THIRD-PARTY-LICENSES.md README.md CHANGELOG.md SECURITY.md package.json index.js index.d.ts load.js binding.js binding.d.ts
  docs/contract.md docs/emulator.md docs/flame.svg docs/host.md docs/migration.md docs/performance.md docs/protocol.md
  docs/reliability.md docs/troubleshooting.md plugin/src/manifest.ts plugin/src/plugin.ts plugin/src/worker.ts
  emulator/cli.mjs emulator/clock.mjs emulator/command.mjs emulator/connect.mjs emulator/delivered.mjs emulator/failure.mjs
  emulator/index.d.mts emulator/index.mjs emulator/isolation/bubblewrap.mjs emulator/isolation/holder.mjs
  emulator/isolation/index.mjs emulator/isolation/namespaces.mjs emulator/isolation/tools.mjs emulator/journal.mjs
  emulator/managed-process.mjs emulator/pipes.mjs emulator/proc.mjs emulator/rate-limit.mjs emulator/recorder.mjs
  emulator/request.mjs emulator/response.mjs emulator/routes/exec.mjs emulator/routes/files.mjs
  emulator/routes/index.mjs emulator/routes/processes.mjs emulator/routes/sandboxes.mjs emulator/sandbox.mjs
  emulator/sandboxes.mjs emulator/server.mjs emulator/signals.mjs emulator/terminate.mjs emulator/work-directory.mjs
`.trim().split(/\s+/);

const CHECK = `
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import * as imported from "createos-native";
import { ${EXPORTS.join(", ")} } from "createos-native";
import { startEmulator } from "createos-native/emulator";
const required = createRequire(import.meta.url)("createos-native");
for (const name of ${JSON.stringify(EXPORTS)}) {
  assert.equal(typeof imported[name], "function", name);
  assert.equal(required[name], imported[name], name);
}
assert.equal(typeof startEmulator, "function");
assert.equal(shellQuote("it's"), "'it'\\"'\\"'s'");
assert.throws(() => parseConfig({}), CreateosError);
console.log("works");
`;

/**
 * Runs a program to its end and gives its output; fails with all of it when the status is not 0.
 * @param {string[]} command
 * @param {{cwd: string, env?: NodeJS.ProcessEnv}} where
 */
function run([program, ...args], { cwd, env = {} }) {
  const options = { cwd, env: { ...cleanEnvironment(), ...env }, encoding: /** @type {const} */ ("utf8"), maxBuffer: 1 << 28 };
  const { status, error, stdout, stderr } = spawnSync(program, args, options);
  assert.equal(status, 0, `${program} ${args.join(" ")}: ${error ?? `exit status ${status}`}\n${stdout}\n${stderr}`);
  return stdout;
}

const npm = (args, where) => run([...npmCommand(), ...args, "--no-audit", "--no-fund", "--prefer-offline"], where);

describe("installing the package", () => {
  let scratch, source, env;

  before(() => {
    scratch = mkdtempSync(path.join(os.tmpdir(), "createos-install-"));
    // The project's files as they are now, without anything built or installed.
    source = path.join(scratch, "source");
    const listed = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], { cwd: ROOT });
    for (const file of listed.split("\0").filter((name) => name && existsSync(path.join(ROOT, name)))) {
      cpSync(path.join(ROOT, file), path.join(source, file));
    }
    // The builds below start from a copy of what this tree has compiled, and leave nothing in it.
    const built = process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target");
    const target = path.join(scratch, "target");
    for (const name of existsSync(built) ? readdirSync(built) : []) {
      const release = name === "release" ? name : path.join(name, "release");
      if (!existsSync(path.join(built, release))) continue;
      cpSync(path.join(built, release), path.join(target, release), { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
    }
    env = { CARGO_TARGET_DIR: target };
  });

  after(() => rmSync(scratch, { recursive: true, force: true }));

  /** Installs `what` into a new project and uses it there. */
  function installs(name, what) {
    const project = path.join(scratch, name);
    mkdirSync(project);
    writeFileSync(path.join(project, "package.json"), JSON.stringify({ name, version: "1.0.0", private: true }));
    npm(["install", what], { cwd: project, env });
    writeFileSync(path.join(project, "check.mjs"), CHECK);
    assert.match(run([process.execPath, "check.mjs"], { cwd: project }), /works/);
    assert.ok(existsSync(path.join(project, "node_modules", ".bin", "createos-emulator")), "the emulator's command");
    return project;
  }

  it("works from a folder, which prepare builds, with no development dependency there", () => {
    installs("from-folder", source);
    assert.ok(!existsSync(path.join(source, "node_modules")), "nothing is installed into the folder");
  });

  it("works from a git URL, built by prepare", () => {
    const clone = path.join(scratch, "clone");
    const bare = path.join(scratch, "bare.git");
    cpSync(source, clone, { recursive: true, filter: (file) => !/[\\/]target$|\.node$|binding\.(js|d\.ts)$/.test(file) });
    const git = (...args) => run(["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false", ...args], { cwd: clone });
    git("init", "--quiet", "--initial-branch=main");
    git("add", "--all");
    git("commit", "--quiet", "--message=All of it");
    git("clone", "--quiet", "--bare", clone, bare);
    const project = installs("from-git", `git+${pathToFileURL(bare)}`);
    const installed = path.join(project, "node_modules", "createos-native");
    assert.ok(!existsSync(path.join(installed, "src")), "no sources");
    assert.ok(!existsSync(path.join(installed, "target")), "nothing of the build");
  });

  it("works from the packed tarball, which holds what users need and nothing else", (t) => {
    const before = readdirSync(ROOT).sort();
    const [packed] = JSON.parse(npm(["pack", "--json", "--silent", "--pack-destination", scratch], { cwd: ROOT }));
    assert.deepEqual(readdirSync(ROOT).sort(), [...new Set([...before, "binding.js", "binding.d.ts", ...addons(ROOT)])].sort(), "packing leaves nothing behind");
    const [addon, ...others] = addons(ROOT);
    assert.deepEqual(others, [], "one addon");
    assert.deepEqual(packed.files.map((file) => file.path).sort(), [...PACKED, addon].sort());
    t.diagnostic(`${packed.filename}: ${packed.files.length} files, ${packed.size} bytes, unpacked ${packed.unpackedSize}`);

    const project = installs("from-tarball", path.join(scratch, packed.filename));
    const { scripts, optionalDependencies = {} } = JSON.parse(readFileSync(path.join(project, "node_modules", "createos-native", "package.json"), "utf8"));
    for (const script of ["preinstall", "install", "postinstall"]) assert.ok(!(script in scripts), `${script} would run on users' machines`);
    assert.deepEqual(optionalDependencies, {}, "the platform packages are added when they are published");

    // The strict consumer again, against what was packed.
    cpSync(path.join(ROOT, "__test__", "consumer"), path.join(project, "consumer"), { recursive: true });
    const types = path.join(ROOT, "node_modules", "@types");
    run([process.execPath, path.join(ROOT, "node_modules", "typescript", "bin", "tsc"), "--project", "consumer", "--typeRoots", types], { cwd: project });
  });

  it("is not built again when nothing has changed", () => {
    const times = () => [...addons(ROOT), "binding.js", "binding.d.ts"].map((file) => statSync(path.join(ROOT, file)).mtimeMs);
    run([process.execPath, "scripts/build.mjs"], { cwd: ROOT });
    const first = times();
    run([process.execPath, "scripts/build.mjs"], { cwd: ROOT });
    assert.deepEqual(times(), first);
  });
});

const addons = (folder) => readdirSync(folder).filter((file) => file.endsWith(".node"));

describe("building without the tools", { skip: process.platform === "win32" }, () => {
  let scratch;

  before(() => {
    scratch = mkdtempSync(path.join(os.tmpdir(), "createos-tools-"));
    for (const name of ["scripts", "src", "Cargo.toml", "Cargo.lock", "build.rs", "package.json", "package-lock.json"]) {
      cpSync(path.join(ROOT, name), path.join(scratch, name), { recursive: true });
    }
  });

  after(() => rmSync(scratch, { recursive: true, force: true }));

  const ok = (version) => `echo "${version}"`;
  const cases = [
    { title: "no Rust", tools: {}, says: /needs Rust 1\.\d+ or newer .*no working rustc was found; install Rust from https:/ },
    { title: "a rustup without a toolchain", tools: { rustc: "exit 1" }, says: /no working rustc was found/ },
    { title: "a Rust that is too old", tools: { rustc: ok("rustc 1.70.0 (abc)"), cargo: ok("cargo 1.70.0") }, says: /rustc is 1\.70\.0; run `rustup update`/ },
    { title: "no cargo", tools: { rustc: ok("rustc 9.0.0 (abc)") }, says: /no working cargo was found/ },
    { title: "no C compiler", tools: { rustc: ok("rustc 9.0.0 (abc)"), cargo: ok("cargo 9.0.0") }, says: /needs a C compiler .*no working cc was found/ },
    { title: "a Node.js that is too old", tools: {}, node: "18.19.0", says: /needs Node\.js 20\.17 or newer .*this is 18\.19\.0; get it from https:/ },
  ];
  for (const { title, tools, node, says } of cases) {
    it(`says in one sentence what is missing: ${title}`, () => {
      const bin = mkdtempSync(path.join(scratch, "bin-"));
      for (const [name, body] of Object.entries(tools)) {
        writeFileSync(path.join(bin, name), `#!/bin/sh\n${body}\n`);
        chmodSync(path.join(bin, name), 0o755);
      }
      const posing = node ? ["--import", `data:text/javascript,Object.defineProperty(process.versions,"node",{value:"${node}"})`] : [];
      const environment = { ...cleanEnvironment(), PATH: bin };
      delete environment.CC;
      const { status, stdout, stderr } = spawnSync(process.execPath, [...posing, "scripts/build.mjs"], { cwd: scratch, env: environment, encoding: "utf8" });
      assert.equal(status, 1, stderr);
      assert.equal(stdout, "");
      assert.match(stderr, /^createos-native needs [^\n]+\.\n$/);
      assert.match(stderr, says);
    });
  }
});
