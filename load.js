"use strict";
// Owns how the addon gets into the process, and what is said where it does not. The generated binding.js decides which binary
// it is; here its failure becomes facts and one sentence that says what to do. Of what Node.js and the system's loader say
// nothing is passed on: it is full of paths. Nothing is thrown: importing the package works without a binary.

/** What is published: the endings of the platform packages' names. A test holds it to package.json. */
const TARGETS = [
  "linux-x64-gnu", "linux-arm64-gnu", "linux-x64-musl", "linux-arm64-musl", "darwin-x64", "darwin-arm64", "win32-x64-msvc",
  "win32-arm64-msvc",
];
const SYSTEMS = "Linux (glibc 2.17 or newer, or musl), macOS and Windows, each on x64 and arm64";

const packageOf = (/** @type {string} */ target) => `createos-native-${target}`;
const fileOf = (/** @type {string} */ target) => `createos-native.${target}.node`;

/** What the loader met on its way, oldest last. */
function messagesOf(failure) {
  const messages = [];
  for (let error = failure; error; error = error.cause) messages.push(String(error.message));
  return messages.join("\n");
}

function isThere(name) {
  try {
    require.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** The C library that this Node.js runs on; only Linux has more than one. */
function libcOf() {
  if (process.platform !== "linux") return null;
  const report = /** @type {any} */ (process.report);
  const { excludeNetwork } = report;
  // Otherwise the names of all peers would be looked up.
  report.excludeNetwork = true;
  const { glibcVersionRuntime } = report.getReport().header;
  report.excludeNetwork = excludeNetwork;
  return glibcVersionRuntime ? `glibc ${glibcVersionRuntime}` : "musl";
}

/** What Node.js or the system's loader has against a binary that is there. */
function refusal(said) {
  const [, glibc] = /version `GLIBC_([\d.]+)' not found/.exec(said) ?? [];
  if (glibc) return `needs glibc ${glibc}. Use a system that has it, such as a newer base image.`;
  const [, library] = /\b(lib[\w+-]+\.so[.\d]*): cannot open shared object file/.exec(said) ?? [];
  if (library) return `needs ${library}, which is not on this system. Install it.`;
  if (/loading addons is disabled/.test(said)) {
    return "is not allowed: start Node.js without --no-addons and, if it has --permission, with --allow-addons.";
  }
  return undefined;
}

/** What to do about the binary for `target`, of which the loader said `said`. */
function advice(target, said) {
  const { NAPI_RS_NATIVE_LIBRARY_PATH, NAPI_RS_FORCE_WASI, NAPI_RS_WASI_FLAVOR } = process.env;
  if (NAPI_RS_WASI_FLAVOR || NAPI_RS_FORCE_WASI === "error") {
    return "NAPI_RS_FORCE_WASI and NAPI_RS_WASI_FLAVOR ask for WebAssembly, which there is none of. Unset them.";
  }
  if (NAPI_RS_NATIVE_LIBRARY_PATH) return "what NAPI_RS_NATIVE_LIBRARY_PATH names cannot be loaded. Unset it, or correct it.";
  // Only a clone has it. There nothing can be installed that would help.
  const clone = isThere("./Cargo.toml");
  const unbuilt = "its addon is not built. Run npm run build in this clone of its repository.";
  if (said.includes("Cannot find module './binding.js'")) return clone ? unbuilt : "the package is incomplete. Install it again.";
  if (!target) return clone ? unbuilt : `there is no binary for it. Use ${SYSTEMS}, or build it there by installing the package from its git repository.`;

  const name = packageOf(target);
  // One that was built here, in a clone or for an installation from a git repository.
  const isOwn = !isThere(name) && isThere(`./${fileOf(target)}`);
  const subject = isOwn ? fileOf(target) : name;
  const refused = refusal(said);
  if (refused) return `${subject} ${refused}`;
  const damaged = `${subject} is damaged or made for another system.`;
  if (isOwn) return `${damaged} ${clone ? "Run npm run build." : "Remove node_modules and install again."}`;
  if (isThere(name)) return `${damaged} Remove node_modules and install again; node -p 'require("${name}")' shows what is wrong.`;
  if (clone) return unbuilt;
  const remedy = process.versions.pnp
    ? "Run yarn install on this system, or name it in supportedArchitectures of .yarnrc.yml."
    : "Install createos-native again on this system, with optional dependencies (without --omit=optional or --no-optional); " +
      "if the lock file was made on another system, remove it and node_modules first.";
  return `the package ${name} is not installed. ${remedy}`;
}

/** What is known of a failure to load the addon. */
function explain(failure) {
  const said = messagesOf(failure);
  // What the loader looked for tells which system it saw.
  const target = TARGETS.find((candidate) => said.includes(packageOf(candidate)) || said.includes(fileOf(candidate)));
  const { platform, arch } = process;
  const libc = libcOf();
  const message = `createos-native cannot be loaded on ${platform} ${arch}${libc ? ` (${libc})` : ""}: ${advice(target, said)}`;
  return { message, platform, arch, libc, package: target ? packageOf(target) : null };
}

/** @returns {{addon: typeof import("./binding.js"), problem?: undefined} | {addon?: undefined, problem: ReturnType<typeof explain>}} */
function load() {
  try {
    return { addon: require("./binding.js") };
  } catch (error) {
    return { problem: explain(error) };
  }
}

module.exports = load();
