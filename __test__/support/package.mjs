// The package as every test calls it: the real one, with the scanner of secrets.mjs between it and the test. What it
// rejects with, throws or resolves with is looked through; otherwise nothing is changed.
import * as real from "../../index.js";
import { scan } from "./secrets.mjs";

export const { CreateosApiError, CreateosCleanupError, CreateosError } = real;

async function watched(promise) {
  try {
    // What a command printed is its own affair.
    const result = await promise;
    if (result?.metadata) scan({ ...result, stdout: "", stderr: "" });
    return result;
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
export const shellQuote = (value) => {
  try {
    return real.shellQuote(value);
  } catch (error) {
    throw scan(error);
  }
};

export class CreateosClient extends real.CreateosClient {
  constructor(...args) {
    super(...args);
    scan(this);
  }
}

export class CreateosProvider extends real.CreateosProvider {
  execute(...args) {
    return watched(super.execute(...args));
  }

  release(...args) {
    return watched(super.release(...args));
  }

  shutdown() {
    return watched(super.shutdown());
  }
}
