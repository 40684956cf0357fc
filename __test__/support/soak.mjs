// How long tests go on that could go on for ever: shortly by default, in full with `CREATEOS_TEST_SOAK=1`.

export const SOAK = Boolean(process.env.CREATEOS_TEST_SOAK);
