// The package as every test calls it: the real one, with the scanner of secrets.mjs between it and the test. What it
// rejects with, throws or resolves with is looked through; otherwise nothing is changed.
import * as real from "../../index.js";
import { scan } from "./secrets.mjs";

export const { CreateosApiError, CreateosCleanupError, CreateosError, CreateosLoadError } = real;

/** For what the scanner itself would change, such as the frame that a stack begins with. Whoever uses it calls `scan`. */
export const unwatched = real;

/** A result without what is in it rightly: what a command printed, and where the lease is, for its holder to keep. */
function looked(result) {
  if (result === null || typeof result !== "object") return result;
  const { stdout, stderr, metadata, ...rest } = result;
  const { apiUrl, ...facts } = metadata ?? {};
  scan({ ...rest, metadata: facts });
  return result;
}

async function watched(promise) {
  try {
    return looked(await promise);
  } catch (error) {
    throw scan(error);
  }
}

function checked(call) {
  try {
    return scan(call());
  } catch (error) {
    throw scan(error);
  }
}

export const execute = (...args) => watched(real.execute(...args));
export const release = (...args) => watched(real.release(...args));
export const shutdown = () => watched(real.shutdown());
export const createProvider = (options) => checked(() => new CreateosProvider(options));
export const parseConfig = (raw) => checked(() => real.parseConfig(raw));
/** What is quoted is the caller's own. */
export const shellQuote = (value) => {
  try {
    return real.shellQuote(value);
  } catch (error) {
    throw scan(error);
  }
};

export class CreateosClient extends real.CreateosClient {
  constructor(...args) {
    try {
      super(...args);
    } catch (error) {
      throw scan(error);
    }
    scan(this);
    scan(JSON.stringify(this));
  }
}

export class CreateosProvider extends real.CreateosProvider {}
for (const name of Object.getOwnPropertyNames(real.CreateosProvider.prototype).filter((each) => each !== "constructor")) {
  const method = real.CreateosProvider.prototype[name];
  CreateosProvider.prototype[name] = function (...args) {
    return watched(method.apply(this, args));
  };
}
