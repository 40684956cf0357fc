// Getting the addon into the process: the right binary for each system, and one error that says what to do where there is none.
// Every case is a program of its own in a project of its own, which sees the system that it is told of.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { after, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { cleanEnvironment } from "../scripts/npm.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const BINARY = readdirSync(ROOT).find((file) => /^createos-native\..*\.node$/.test(file));
const MANIFEST = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));

const SYSTEMS = {
  "linux-x64-gnu": { platform: "linux", arch: "x64", glibc: "2.28" },
  "linux-arm64-gnu": { platform: "linux", arch: "arm64", glibc: "2.17" },
  "linux-x64-musl": { platform: "linux", arch: "x64" },
  "linux-arm64-musl": { platform: "linux", arch: "arm64" },
  "darwin-x64": { platform: "darwin", arch: "x64" },
  "darwin-arm64": { platform: "darwin", arch: "arm64" },
  "win32-x64-msvc": { platform: "win32", arch: "x64" },
  "win32-arm64-msvc": { platform: "win32", arch: "arm64" },
};
const TARGETS = Object.keys(SYSTEMS);

/** Makes Node.js believe that it runs on the system in the variable `POSING`. */
const POSE = `
const fs = require("node:fs");
const { platform, arch, glibc } = JSON.parse(process.env.POSING);
Object.defineProperty(process, "platform", { value: platform });
Object.defineProperty(process, "arch", { value: arch });
process.report.getReport = () => ({ header: glibc ? { glibcVersionRuntime: glibc } : {}, sharedObjects: glibc ? [] : ["/lib/ld-musl-x86_64.so.1"] });
const { readFileSync } = fs;
fs.readFileSync = (file, ...rest) => {
  if (file !== "/usr/bin/ldd") return readFileSync(file, ...rest);
  throw new Error("There is no ldd.");
};
`;

const projects = mkdtempSync(path.join(os.tmpdir(), "createos-load-"));
after(() => rmSync(projects, { recursive: true, force: true }));
writeFileSync(path.join(projects, "pose.cjs"), POSE);

/**
 * A project with the package as it is published, without a binary of its own, and with these platform packages.
 * @param {Record<string, string | Buffer>} [binaries] the content by target: of a .node file, or of a module in its place
 * @param {Record<string, string | Buffer>} [own] what the package's own folder has besides
 */
function project(binaries = {}, own = {}) {
  const folder = mkdtempSync(path.join(projects, "project-"));
  const modules = path.join(folder, "node_modules");
  for (const file of ["package.json", "index.js", "load.js", "binding.js"]) {
    cpSync(path.join(ROOT, file), path.join(modules, "createos-native", file));
  }
  for (const [file, content] of Object.entries(own)) writeFileSync(path.join(modules, "createos-native", file), content);
  for (const [target, content] of Object.entries(binaries)) {
    const name = `createos-native-${target}`;
    const main = typeof content === "string" ? "index.js" : `createos-native.${target}.node`;
    mkdirSync(path.join(modules, name));
    writeFileSync(path.join(modules, name, "package.json"), JSON.stringify({ name, version: MANIFEST.version, main }));
    writeFileSync(path.join(modules, name, main), content);
  }
  return folder;
}

/** Runs a CommonJS program in a project and gives what it printed, which must be JSON and nothing else. */
function run(folder, source, { system, env = {}, flags = [] } = {}) {
  const posing = system ? ["--require", path.join(projects, "pose.cjs")] : [];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, ...posing, "-e", source], {
    cwd: folder, encoding: "utf8", env: { ...cleanEnvironment(), NODE_OPTIONS: "", ...env, ...(system && { POSING: JSON.stringify(system) }) },
  });
  assert.deepEqual({ status, stderr }, { status: 0, stderr: "" });
  return JSON.parse(stdout);
}

const FAIL = `
const { CreateosError, CreateosLoadError, parseConfig } = require("createos-native");
try {
  parseConfig({});
} catch (error) {
  const { name, message, platform, arch, libc, package: missing } = error;
  console.log(JSON.stringify({ known: error instanceof CreateosLoadError && error instanceof CreateosError, name, message, platform, arch, libc, package: missing }));
}`;

/** The error of the first use; what every such error has in common is checked here. */
function failure(folder, options) {
  const { known, name, message, ...facts } = run(folder, FAIL, options);
  assert.deepEqual({ known, name }, { known: true, name: "CreateosLoadError" });
  assert.match(message, /^createos-native cannot be loaded on [^\n]+\.$|shows what is wrong\.$/);
  assert.ok(!message.includes(projects) && !message.includes("node_modules/"), `a path: ${message}`);
  const { platform, arch, libc } = facts;
  assert.ok(message.startsWith(`createos-native cannot be loaded on ${platform} ${arch}${libc ? ` (${libc})` : ""}: `), message);
  return { message: message.slice(message.indexOf(": ") + 2), ...facts };
}

/** The real binary with one text in it replaced by another of the same length. */
function altered(pattern, replacement) {
  const binary = readFileSync(path.join(ROOT, BINARY));
  const text = binary.toString("latin1");
  const found = [...text.matchAll(pattern)];
  assert.ok(found.length > 0, `${pattern} is not in the binary`);
  for (const { index, 0: old } of found) {
    assert.equal(replacement.length, old.length);
    binary.write(replacement, index, "latin1");
  }
  return binary;
}

test("there is a package for each target that is built, and for no other", () => {
  const abi = { "unknown-linux-gnu": "-gnu", "unknown-linux-musl": "-musl", "apple-darwin": "", "pc-windows-msvc": "-msvc" };
  const built = MANIFEST.napi.targets.map((triple) => {
    const [, cpu, system] = /^(x86_64|aarch64)-(.*)$/.exec(triple);
    const platform = system.includes("linux") ? "linux" : system.includes("darwin") ? "darwin" : "win32";
    return `${platform}-${cpu === "x86_64" ? "x64" : "arm64"}${abi[system]}`;
  });
  assert.deepEqual(built.toSorted(), TARGETS.toSorted());
  assert.deepEqual(readdirSync(path.join(ROOT, "npm")).toSorted(), TARGETS.toSorted());
  const known = /const TARGETS = \[([^\]]*)\]/.exec(readFileSync(path.join(ROOT, "load.js"), "utf8"))[1];
  assert.deepEqual([...known.matchAll(/"([^"]+)"/g)].map(([, target]) => target).toSorted(), TARGETS.toSorted());
});

describe("with every platform's package installed", () => {
  const real = JSON.stringify(path.join(ROOT, BINARY));
  const everything = project(Object.fromEntries(TARGETS.map((target) =>
    [target, `(globalThis.loaded ??= []).push("${target}"); module.exports = require(${real});`])));

  for (const [target, system] of Object.entries(SYSTEMS)) {
    test(`${target} is loaded on ${Object.values(system).join(" ")}, and works`, () => {
      const source = `const { shellQuote } = require("createos-native"); console.log(JSON.stringify([globalThis.loaded, shellQuote("a")]))`;
      assert.deepEqual(run(everything, source, { system }), [[target], "'a'"]);
    });
  }
});

describe("without its platform's package", () => {
  const nothing = project();

  for (const [target, system] of Object.entries(SYSTEMS)) {
    test(`the first use on ${Object.values(system).join(" ")} names ${target} and what to do`, () => {
      const { message, ...facts } = failure(nothing, { system });
      const { platform, arch, glibc } = system;
      const libc = platform === "linux" ? (glibc ? `glibc ${glibc}` : "musl") : null;
      assert.deepEqual(facts, { platform, arch, libc, package: `createos-native-${target}` });
      assert.match(message, new RegExp(`^the package createos-native-${target} is not installed\\. Install createos-native again on this system, with optional dependencies`));
      assert.match(message, /lock file was made on another system, remove it and node_modules first\.$/);
    });
  }

  test("another system's package, which a foreign lock file brings, is of no use", () => {
    const { message } = failure(project({ "darwin-arm64": "throw new Error('loaded')" }), { system: SYSTEMS["linux-x64-gnu"] });
    assert.match(message, /^the package createos-native-linux-x64-gnu is not installed\./);
  });

  test("every export is there, and all that need the addon fail alike, each where it was called", () => {
    const seen = run(nothing, `
      const addon = require("createos-native");
      const provider = Object.create(addon.CreateosProvider.prototype);
      const uses = {
        parseConfig: () => addon.parseConfig({}), shellQuote: () => addon.shellQuote("a"), createProvider: () => addon.createProvider({ pacing: 1 }),
        CreateosClient: () => new addon.CreateosClient(undefined, 1), CreateosProvider: () => new addon.CreateosProvider(),
        execute: () => addon.execute(), release: () => addon.release(), shutdown: () => addon.shutdown(),
      };
      (async () => {
        const failed = {};
        for (const [name, use] of Object.entries(uses)) {
          let thrown = true;
          try {
            const call = use();
            thrown = false;
            await call;
          } catch (error) {
            failed[name] = { thrown, message: error.message, kind: error instanceof addon.CreateosLoadError, here: error.stack.includes("[eval]") };
          }
        }
        console.log(JSON.stringify({ names: Object.keys(addon), types: new Set(Object.values(addon).map((value) => typeof value)).size, failed }));
      })();`);
    assert.deepEqual([seen.names, seen.types], [Object.keys(createRequire(import.meta.url)("../index.js")), 1]);
    const { message } = seen.failed.parseConfig;
    assert.deepEqual(Object.keys(seen.failed), ["parseConfig", "shellQuote", "createProvider", "CreateosClient", "CreateosProvider", "execute", "release", "shutdown"]);
    for (const [name, { thrown, here, kind, message: text }] of Object.entries(seen.failed)) {
      assert.deepEqual({ thrown, here, kind, text }, { thrown: !["execute", "release", "shutdown"].includes(name), here: true, kind: true, text: message }, name);
    }
  });

  test("a worker thread and an ES module see the same", () => {
    const inWorker = `
      const { Worker } = require("node:worker_threads");
      new Worker(${JSON.stringify(`
        import("createos-native").then((addon) => {
          try {
            addon.shellQuote("a");
          } catch (error) {
            console.log(JSON.stringify([Object.keys(addon).includes("execute"), error.name, error.package]));
          }
        });`)}, { eval: true });`;
    assert.deepEqual(run(nothing, inWorker), [true, "CreateosLoadError", `createos-native-${BINARY.split(".")[1]}`]);
  });
});

test("a worker thread loads what the main thread has loaded, before it and after it", () => {
  const target = BINARY.split(".")[1];
  const folder = project({ [target]: readFileSync(path.join(ROOT, BINARY)) });
  const source = `
    const { Worker } = require("node:worker_threads");
    const start = () => new Promise((resolve, reject) => new Worker(
      'const { shellQuote } = require("createos-native"); require("node:worker_threads").parentPort.postMessage(shellQuote("w"))', { eval: true },
    ).once("message", resolve).once("error", reject));
    (async () => console.log(JSON.stringify([await start(), require("createos-native").shellQuote("m"), await start()])))();`;
  assert.deepEqual(run(folder, source), ["'w'", "'m'", "'w'"]);
});

describe("on a system that nothing is built for", () => {
  const nothing = project();
  const others = [
    { platform: "freebsd", arch: "x64" }, { platform: "linux", arch: "riscv64", glibc: "2.39" }, { platform: "linux", arch: "arm" },
    { platform: "win32", arch: "ia32" }, { platform: "aix", arch: "ppc64" }, { platform: "android", arch: "arm64" },
  ];
  for (const system of others) {
    test(`the first use on ${Object.values(system).join(" ")} says what there is`, () => {
      const { message, package: none } = failure(nothing, { system });
      assert.equal(none, null);
      assert.match(message, /^there is no binary for it\. Use Linux \(glibc 2\.17 or newer, or musl\), macOS and Windows, each on x64 and arm64, or build it there/);
    });
  }
});

describe("a binary that cannot be loaded", { skip: process.platform !== "linux" || process.arch !== "x64" }, () => {
  const target = BINARY.split(".")[1];
  const name = `createos-native-${target}`;
  const real = readFileSync(path.join(ROOT, BINARY));

  test("needs a newer glibc than there is: the error names the version", () => {
    const newest = [...real.toString("latin1").matchAll(/GLIBC_(2\.\d\d)\0/g)].map(([, version]) => version).sort().at(-1);
    const { message, libc } = failure(project({ [target]: altered(new RegExp(`GLIBC_${newest.replace(".", "\\.")}\0`, "g"), "GLIBC_2.99\0") }));
    assert.equal(message, `${name} needs glibc 2.99. Use a system that has it, such as a newer base image.`);
    assert.match(libc, /^glibc 2\.\d+$/);
  });

  test("needs a library that is not there: the error names it", () => {
    const { message } = failure(project({ [target]: altered(/libm\.so\.6\0/g, "libm.so.9\0") }));
    assert.equal(message, `${name} needs libm.so.9, which is not on this system. Install it.`);
  });

  const otherMachine = Buffer.from(real);
  otherMachine.writeUInt16LE(0xb7, 18);
  for (const [what, content] of [["is of another machine", otherMachine], ["is something else", Buffer.from("not a library\n")], ["is empty", Buffer.alloc(0)]]) {
    test(`${what}: the error says how to see what is wrong`, () => {
      const { message } = failure(project({ [target]: content }));
      assert.equal(message, `${name} is damaged or made for another system. Remove node_modules and install again; node -p 'require("${name}")' shows what is wrong.`);
    });
  }

  const permission = process.allowedNodeEnvironmentFlags.has("--permission") ? "--permission" : "--experimental-permission";
  for (const flags of [["--no-addons"], [permission, "--allow-fs-read=*", "--no-warnings"]]) {
    test(`is not allowed by ${flags[0]}: the error says so`, () => {
      const { message } = failure(project({ [target]: real }), { flags });
      assert.equal(message, `${name} is not allowed: start Node.js without --no-addons and, if it has --permission, with --allow-addons.`);
    });
  }

  test("was built by an installation from a git URL and is damaged: the error names the file, and no package that is not there", () => {
    const file = `createos-native.${target}.node`;
    assert.equal(failure(project({}, { [file]: "no library" })).message,
      `${file} is damaged or made for another system. Remove node_modules and install again.`);
  });

  test("is not there at all, nor is the generated loader: the error says that the package is incomplete", () => {
    const folder = project();
    rmSync(path.join(folder, "node_modules", "createos-native", "binding.js"));
    assert.equal(failure(folder).message, "the package is incomplete. Install it again.");
  });
});

describe("in a clone of the repository", () => {
  const clone = (own) => project({}, { "Cargo.toml": "", ...own });
  const unbuilt = "its addon is not built. Run npm run build in this clone of its repository.";

  test("of which nothing was built yet, the error says to build", () => {
    const folder = clone();
    rmSync(path.join(folder, "node_modules", "createos-native", "binding.js"));
    assert.equal(failure(folder).message, unbuilt);
  });

  test("that has lost its binary, the error says to build, on every system", () => {
    const folder = clone();
    for (const system of [...Object.values(SYSTEMS), { platform: "freebsd", arch: "x64" }]) assert.equal(failure(folder, { system }).message, unbuilt);
  });

  test("whose binary is damaged, the error names the file and says to build", () => {
    const file = `createos-native.${BINARY.split(".")[1]}.node`;
    assert.equal(failure(clone({ [file]: "no library" })).message, `${file} is damaged or made for another system. Run npm run build.`);
  });
});

describe("the generated loader's own variables", () => {
  const target = BINARY.split(".")[1];
  const folder = project({ [target]: readFileSync(path.join(ROOT, BINARY)) });

  test("NAPI_RS_NATIVE_LIBRARY_PATH names another binary, and an error about it does not repeat it", () => {
    const source = `console.log(JSON.stringify(require("createos-native").shellQuote("a")))`;
    assert.equal(run(project(), source, { env: { NAPI_RS_NATIVE_LIBRARY_PATH: path.join(ROOT, BINARY) } }), "'a'");
    const { message } = failure(folder, { env: { NAPI_RS_NATIVE_LIBRARY_PATH: "/secret/place.node" } });
    assert.equal(message, "what NAPI_RS_NATIVE_LIBRARY_PATH names cannot be loaded. Unset it, or correct it.");
  });

  for (const env of [{ NAPI_RS_FORCE_WASI: "error" }, { NAPI_RS_WASI_FLAVOR: "wasm32-wasi" }, { NAPI_RS_WASI_FLAVOR: "secret" }]) {
    test(`${Object.entries(env)[0].join("=")} asks for what there is not`, () => {
      const { message } = failure(folder, { env });
      assert.equal(message, "NAPI_RS_FORCE_WASI and NAPI_RS_WASI_FLAVOR ask for WebAssembly, which there is none of. Unset them.");
    });
  }

  test("with NAPI_RS_FORCE_WASI=true, which may fall back, the binary is loaded", () => {
    assert.equal(run(folder, `console.log(JSON.stringify(require("createos-native").shellQuote("a")))`, { env: { NAPI_RS_FORCE_WASI: "true" } }), "'a'");
  });
});
