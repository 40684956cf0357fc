// What is published, made as a release makes it and served by a registry on this machine: what is in the packages, and that
// they install and work as users do it, with npm, pnpm and Yarn, in each project of examples/.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { checkFloor } from "../scripts/floor.mjs";
import { cleanEnvironment, npmCommand, toolsFolder } from "../scripts/npm.mjs";
import { makePackages } from "../scripts/packages.mjs";
import { startRegistry } from "../scripts/registry.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { version } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));
const BINARY = readdirSync(ROOT).find((file) => /^createos-native\..*\.node$/.test(file));
const TARGET = BINARY.split(".")[1];
const TARGETS = readdirSync(path.join(ROOT, "npm"));
/** Also what README.md says. */
const MOST = { main: 150_000, platform: 4_000_000 };

/** What users get besides the emulator's own files. */
const MAIN = [
  "CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "THIRD-PARTY-LICENSES.md", "binding.d.ts", "binding.js", "index.d.ts", "index.js", "load.js", "package.json",
  "docs/contract.md", "docs/emulator.md", "docs/flame.svg", "docs/host.md", "docs/migration.md", "docs/performance.md", "docs/protocol.md",
  "docs/reliability.md", "docs/troubleshooting.md", "plugin/src/manifest.ts", "plugin/src/plugin.ts", "plugin/src/worker.ts",
];

const scratch = mkdtempSync(path.join(os.tmpdir(), "createos-published-"));
after(() => rmSync(scratch, { recursive: true, force: true }));
/** A folder of tarballs: those of the variable, else made of the binary that is here, and of files that are none for the others. */
const tarballs = process.env.CREATEOS_PACKAGES ? path.resolve(process.env.CREATEOS_PACKAGES) : path.join(scratch, "packages");
let registry;
/** Where the workflow that made the tarballs says that it runs; tarballs that are there can have been made anywhere. */
const SOURCE = process.env.CREATEOS_PACKAGES ? undefined : {
  GITHUB_SERVER_URL: process.env.GITHUB_SERVER_URL ?? "https://git.example", GITHUB_REPOSITORY: process.env.GITHUB_REPOSITORY ?? "owner/repository",
};

before(async () => {
  if (!process.env.CREATEOS_PACKAGES) {
    const binaries = path.join(scratch, "binaries");
    mkdirSync(binaries);
    for (const target of TARGETS) writeFileSync(path.join(binaries, `createos-native.${target}.node`), `No binary for ${target}.\n`);
    cpSync(path.join(ROOT, BINARY), path.join(binaries, BINARY));
    Object.assign(process.env, SOURCE);
    makePackages(binaries, tarballs);
  }
  registry = await startRegistry(tarballs);
});
after(() => registry?.close());

const tarballOf = (name) => path.join(tarballs, `${name}-${version}.tgz`);

function tar(...args) {
  const { status, stdout, stderr } = spawnSync("tar", args, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout;
}
const filesOf = (tarball) => tar("-tzf", tarball).trim().split("\n").map((file) => file.replace(/^package\//, "")).sort();
const manifestOf = (tarball) => JSON.parse(tar("-xzOf", tarball, "package/package.json"));

/** The registry as each package manager is told of it, with nothing of another project in its caches. */
const settings = () => ({
  npm_config_registry: registry.url, npm_config_audit: "false", npm_config_fund: "false", npm_config_update_notifier: "false",
  CI: "true",
  YARN_NPM_REGISTRY_SERVER: registry.url.replace(/\/$/, ""), YARN_UNSAFE_HTTP_WHITELIST: "127.0.0.1", YARN_ENABLE_TELEMETRY: "0",
  YARN_GLOBAL_FOLDER: path.join(scratch, "yarn"), YARN_ENABLE_IMMUTABLE_INSTALLS: "false", YARN_NPM_MINIMAL_AGE_GATE: "0",
});

/** Runs a program to its end, not synchronously: the registry is in this process. */
async function run([program, ...args], cwd, env = {}) {
  const child = spawn(program, args, { cwd, env: { ...cleanEnvironment(), ...settings(), ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const seen = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"]) child[stream].setEncoding("utf8").on("data", (text) => (seen[stream] += text));
  const status = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  assert.equal(status, 0, `${program} ${args.join(" ")}: exit status ${status}\n${seen.stdout}\n${seen.stderr}`);
  return seen.stdout;
}
const npm = (cwd, ...args) => run([...npmCommand(), ...args], cwd);

function project(name, manifest = {}) {
  const folder = path.join(scratch, name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, "package.json"), JSON.stringify({ name, private: true, dependencies: { "createos-native": version }, ...manifest }));
  writeFileSync(path.join(folder, "use.cjs"), `
    const { CreateosLoadError, shellQuote } = require("createos-native");
    try {
      console.log(shellQuote("works"));
    } catch (error) {
      console.log(error instanceof CreateosLoadError ? error.message : error);
    }`);
  return folder;
}

describe("what is published", () => {
  test("every package names the repository that it was built in, as a provenance statement has to", { skip: SOURCE === undefined }, () => {
    const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = SOURCE;
    for (const name of ["createos-native", ...TARGETS.map((target) => `createos-native-${target}`)]) {
      assert.deepEqual(manifestOf(tarballOf(name)).repository, { type: "git", url: `git+${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}.git` }, name);
    }
  });

  test("the main package holds what users need, no binary, and nothing that runs when it is installed", (t) => {
    const tarball = tarballOf("createos-native");
    const emulator = readdirSync(path.join(ROOT, "emulator"), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile()).map((entry) => path.relative(ROOT, path.join(entry.parentPath ?? entry.path, entry.name)).replaceAll("\\", "/"));
    assert.deepEqual(filesOf(tarball), [...MAIN, ...emulator].sort());
    const { scripts, devDependencies, dependencies, optionalDependencies, bin } = manifestOf(tarball);
    assert.deepEqual({ scripts, devDependencies, dependencies }, { scripts: undefined, devDependencies: undefined, dependencies: undefined });
    assert.deepEqual(optionalDependencies, Object.fromEntries(TARGETS.map((target) => [`createos-native-${target}`, version])));
    for (const file of Object.values(bin)) assert.ok(filesOf(tarball).includes(file));
    const { size } = statSync(tarball);
    t.diagnostic(`${size} bytes`);
    assert.ok(size <= MOST.main, `${size} bytes`);
  });

  test("each platform's package holds its binary and the licenses of what is in it", (t) => {
    assert.deepEqual(readdirSync(tarballs).sort(), ["createos-native", ...TARGETS.map((target) => `createos-native-${target}`)].map((name) => `${name}-${version}.tgz`).sort());
    for (const target of TARGETS) {
      const tarball = tarballOf(`createos-native-${target}`);
      assert.deepEqual(filesOf(tarball), ["LICENSE", "README.md", "THIRD-PARTY-LICENSES.md", `createos-native.${target}.node`, "package.json"]);
      const { name, main, os: systems, cpu, libc, scripts } = manifestOf(tarball);
      const [platform, arch, abi] = target.split("-");
      assert.deepEqual({ name, main, systems, cpu, scripts }, {
        name: `createos-native-${target}`, main: `createos-native.${target}.node`, systems: [platform], cpu: [arch], scripts: undefined,
      });
      assert.deepEqual(libc, platform === "linux" ? [abi === "gnu" ? "glibc" : "musl"] : undefined);
      const { size } = statSync(tarball);
      if (target === TARGET) t.diagnostic(`${size} bytes`);
      assert.ok(size <= MOST.platform, `${target}: ${size} bytes`);
    }
    const said = /at most ([\d.]+) MB for the package itself and ([\d.]+) MB/.exec(readFileSync(path.join(ROOT, "README.md"), "utf8"));
    assert.deepEqual(said?.slice(1).map((size) => Number(size) * 1_000_000), [MOST.main, MOST.platform], "the README's sizes");
  });

  test("they are not made of some of the binaries only, which is said in a sentence", () => {
    const [own, out] = ["own", "none"].map((name) => path.join(scratch, name));
    mkdirSync(own);
    cpSync(path.join(ROOT, BINARY), path.join(own, BINARY));
    const { status, stderr } = spawnSync(process.execPath, ["scripts/packages.mjs", own, out], { cwd: ROOT, encoding: "utf8" });
    const missing = TARGETS.filter((target) => target !== TARGET).map((target) => `createos-native.${target}.node`);
    assert.equal(status, 1);
    assert.equal(stderr, `A release takes the binaries of all targets, and ${own} lacks ${missing.join(", ")}; npm pack makes a package with only this system's.\n`);
    assert.ok(!existsSync(out));
  });

  test("npm/ is what the napi CLI makes of package.json", () => {
    const folder = path.join(scratch, "dirs");
    mkdirSync(folder);
    cpSync(path.join(ROOT, "package.json"), path.join(folder, "package.json"));
    const cli = path.join(toolsFolder(ROOT), "node_modules", "@napi-rs", "cli", "dist", "cli.js");
    assert.equal(spawnSync(process.execPath, [cli, "create-npm-dirs"], { cwd: folder, stdio: "ignore" }).status, 0);
    for (const target of TARGETS) {
      const [made, kept] = [folder, ROOT].map((root) => JSON.parse(readFileSync(path.join(root, "npm", target, "package.json"), "utf8")));
      assert.deepEqual(kept, made, target);
    }
  });

  test("the licenses of what is linked in are up to date", () => {
    const { status, stderr } = spawnSync(process.execPath, ["scripts/licenses.mjs", "--check"], { cwd: ROOT, encoding: "utf8" });
    assert.equal(status, 0, stderr);
  });
});

test("a binary that needs a newer glibc or Node-API than promised is not released", { skip: process.platform !== "linux" || TARGET.endsWith("-musl") }, () => {
  const file = path.join(scratch, BINARY);
  const rewrite = (change) => writeFileSync(file, change(readFileSync(path.join(ROOT, BINARY), "latin1")), "latin1");
  const versions = (replacement) => (binary) => binary.replaceAll(/GLIBC_2\.\d\d\0/g, `${replacement}\0`);
  rewrite(versions("GLIBC_2.17"));
  assert.equal(checkFloor(file).glibc, "2.17");
  rewrite(versions("GLIBC_2.18"));
  assert.throws(() => checkFloor(file), { message: `${BINARY} needs glibc 2.18; it must run on 2.17.` });
  rewrite((binary) => `${versions("GLIBC_2.17")(binary)}\0node_api_symbol_for\0`);
  assert.throws(() => checkFloor(file), { message: `${BINARY} calls node_api_symbol_for, which Node-API 8 does not have.` });
});

describe("published", () => {
  // Sorted by name the main one is first. Three show it all; npm takes its time for each.
  const names = ["createos-native", "createos-native-darwin-arm64", `createos-native-${TARGET}`];

  /** What was published, in order, by a registry that has `known` already. */
  async function published(known, ...args) {
    const few = path.join(scratch, "few");
    for (const name of names) cpSync(tarballOf(name), path.join(few, path.basename(tarballOf(name))));
    const seen = [];
    const server = http.createServer(async (request, response) => {
      const name = decodeURIComponent(request.url.slice(1)).split("/")[0];
      if (request.method === "PUT") {
        seen.push(name);
        await text(request);
        return response.writeHead(201, { "content-type": "application/json" }).end("{}");
      }
      const document = known.includes(name) && { name, "dist-tags": { latest: version }, versions: { [version]: { name, version } } };
      return response.writeHead(document ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(document || { error: "not found" }));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const host = `127.0.0.1:${server.address().port}`;
    const npmrc = path.join(scratch, "npmrc");
    writeFileSync(npmrc, `registry=http://${host}/\n//${host}/:_authToken=token\n`);
    try {
      const env = { npm_config_registry: `http://${host}/`, npm_config_userconfig: npmrc };
      const said = await run([process.execPath, "scripts/publish.mjs", few, ...args], ROOT, env).catch((error) => error.message);
      return { seen, said };
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }
  test("the platforms' packages go before the main one, and what is there already is left out", async () => {
    const [main, first, second] = names;
    const { seen, said } = await published([first], "--tag", `v${version}`);
    assert.deepEqual(seen, [second, main], said);
    assert.ok(said.includes(`${first}@${version}: published already`), said);
  });

  test("a dry run publishes nothing, and a tag of another version neither", async () => {
    const dry = await published([], "--dry-run");
    assert.deepEqual(dry.seen, []);
    for (const name of names) assert.ok(dry.said.includes(`${name}@${version}: would be published`), dry.said);
    const wrong = await published([], "--tag", "v99.0.0");
    assert.deepEqual(wrong.seen, []);
    assert.match(wrong.said, /The tag is v99\.0\.0, and createos-native is/);
  });
});

describe("installed from a registry", () => {
  const binaries = (folder) => readdirSync(path.join(folder, "node_modules")).filter((name) => name.startsWith("createos-native-"));

  test("npm takes this system's binary and no other", async () => {
    const folder = project("npm");
    await npm(folder, "install");
    assert.deepEqual(binaries(folder), [`createos-native-${TARGET}`]);
    assert.equal(await run([process.execPath, "use.cjs"], folder), "'works'\n");
    // The lock file knows all systems, so that it serves on another.
    const { packages } = JSON.parse(readFileSync(path.join(folder, "package-lock.json"), "utf8"));
    for (const target of TARGETS) assert.ok(packages[`node_modules/createos-native-${target}`], target);
    rmSync(path.join(folder, "node_modules"), { recursive: true });
    await npm(folder, "ci");
    assert.equal(await run([process.execPath, "use.cjs"], folder), "'works'\n");
  });

  test("without optional dependencies, importing works and the first use says what is missing", async () => {
    const folder = project("omit");
    await npm(folder, "install", "--omit=optional");
    assert.deepEqual(binaries(folder), []);
    assert.match(await run([process.execPath, "use.cjs"], folder), new RegExp(`the package createos-native-${TARGET} is not installed\\..*--omit=optional`));
  });

  test("for another system, importing works and the first use says what is missing", async () => {
    const folder = project("foreign");
    await npm(folder, "install", "--os=win32", "--cpu=arm64");
    assert.deepEqual(binaries(folder), ["createos-native-win32-arm64-msvc"]);
    assert.match(await run([process.execPath, "use.cjs"], folder), new RegExp(`the package createos-native-${TARGET} is not installed\\..*on this system`));
  });

  test("pnpm links the binary where the package finds it", async () => {
    const tool = project("pnpm-itself", { dependencies: { pnpm: "10.34.5" } });
    await npm(tool, "install", "--ignore-scripts");
    const folder = project("pnpm");
    const caches = { npm_config_store_dir: path.join(scratch, "pnpm-store"), npm_config_cache_dir: path.join(scratch, "pnpm-cache") };
    await run([process.execPath, path.join(tool, "node_modules", "pnpm", "bin", "pnpm.cjs"), "install"], folder, caches);
    assert.ok(existsSync(path.join(folder, "node_modules", ".pnpm")));
    assert.equal(await run([process.execPath, "use.cjs"], folder), "'works'\n");
  });

  test("Yarn Plug'n'Play unpacks the binary and maps it; where it does not, the first use says what to do", async () => {
    const tool = project("yarn-itself", { dependencies: { "@yarnpkg/cli-dist": "4.18.1" } });
    await npm(tool, "install", "--ignore-scripts");
    const yarn = [process.execPath, path.join(tool, "node_modules", "@yarnpkg", "cli-dist", "bin", "yarn.js")];
    const folder = project("yarn", { packageManager: "yarn@4.18.1" });
    writeFileSync(path.join(folder, "yarn.lock"), "");
    await run([...yarn, "install"], folder);
    assert.ok(existsSync(path.join(folder, ".pnp.cjs")) && !existsSync(path.join(folder, "node_modules", "createos-native")));
    assert.equal(await run([...yarn, "node", "use.cjs"], folder), "'works'\n");

    writeFileSync(path.join(folder, ".yarnrc.yml"), "supportedArchitectures:\n  os: [win32]\n  cpu: [arm64]\n");
    await run([...yarn, "install"], folder);
    assert.match(await run([...yarn, "node", "use.cjs"], folder), new RegExp(`the package createos-native-${TARGET} is not installed\\. Run yarn install on this system`));
  });
});

describe("the projects of examples/", { skip: process.platform !== "linux" }, () => {
  const examples = path.join(ROOT, "examples");
  for (const name of readdirSync(examples).filter((entry) => existsSync(path.join(examples, entry, "package.json")))) {
    test(`${name} installs and does what it says`, async () => {
      const folder = path.join(scratch, "examples", name);
      cpSync(path.join(examples, name), folder, { recursive: true, filter: (file) => !/[\\/](node_modules|dist)$/.test(file) });
      await npm(folder, "install", "--prefer-offline");
      await npm(folder, "test");
      assert.ok(existsSync(path.join(folder, "README.md")));
    });
  }
});
