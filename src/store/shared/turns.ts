/** Lets one after the other in. */
export class Turns {
  #last: Promise<void> | null = null;

  async enter(): Promise<() => void> {
    const before = this.#last;
    let open = (): void => {};
    const mine = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#last = mine;
    if (before !== null) await before;
    return () => {
      if (this.#last === mine) this.#last = null;
      open();
    };
  }
}
