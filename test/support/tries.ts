/** How often a property is tried: in CI as often as asked for, where somebody waits a tenth of that. */
export function tries(all: number): number {
  return process.env.CI ? all : Math.ceil(all / 10);
}
