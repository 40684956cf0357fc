// One scanner for everything that the package lets out: errors, results, warnings, printed objects, a program's output.
// Whatever a test keeps secret (keys, URLs, what an endpoint said about a failure) is registered here and may occur in none
// of its forms. package.mjs puts the scanner between the package and the tests, program.mjs behind programs.
import { inspect } from "node:util";

/** A piece of every key and of every error body that the tests make up. */
export const SECRET = "s3cr3t";

/** What no message has a reason to hold: where requests went. */
const PLACES = [/https?:\/\//i, /\/v1\/\w/, /\/sandboxes/, /\/processes/, /x-api-key/i];
const secrets = new Set([SECRET]);

/** Registers texts that must not get out. */
export function conceal(...texts) {
  for (const text of texts) secrets.add(text);
}

/** Throws if a secret is found in a value that the package gave out, however it is looked at. Returns the value. */
export function scan(value) {
  for (const [form, text] of Object.entries(formsOf(value))) {
    const secret = [...secrets].find((each) => text.includes(each)) ?? PLACES.find((place) => place.test(text));
    if (secret !== undefined) throw new Error(`The ${form} form of a ${value?.name ?? typeof value} holds ${secret}`);
  }
  return value;
}

/** Throws if a secret, or a panic of the addon's, is found in what a program printed. Paths may be there: of its files, for one. */
export function scanText(text, of) {
  const secret = [...secrets, "panicked at"].find((each) => text.includes(each));
  if (secret !== undefined) throw new Error(`${of} holds ${secret}`);
}

const ALL = { showHidden: true, depth: Infinity, maxArrayLength: null, maxStringLength: null };

function formsOf(value) {
  const forms = { inspected: inspect(value), "deeply inspected": inspect(value, { ...ALL, getters: true }) };
  if (!(value instanceof Error)) return forms;
  return {
    ...forms,
    string: String(value),
    raw: inspect(value, { ...ALL, customInspect: false }),
    JSON: String(JSON.stringify(value)),
    property: JSON.stringify(everything(value)),
    stack: String(value.stack),
    message: String(value.message),
  };
}

/** All own properties of an object and its prototypes, also hidden and symbolic ones. */
function everything(object) {
  const found = [];
  for (let at = object; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const key of Reflect.ownKeys(at)) found.push([String(key), String(at[key]), typeof at[key] === "function" ? null : at[key]]);
  }
  return found;
}

process.on("warning", scan);
