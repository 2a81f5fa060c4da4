/** Updates that were sent and of which nothing has been heard yet. */
export class HandlerUpdates {
  readonly #send: (number: number, data: string) => void;
  readonly #open = new Map<number, (problem: string | null) => void>();
  #count = 0;

  constructor(send: (number: number, data: string) => void) {
    this.#send = send;
  }

  get isWaiting(): boolean {
    return this.#open.size > 0;
  }

  /** Fulfilled once the runner says that it is in the log. */
  send(data: string): Promise<void> {
    this.#count += 1;
    const number = this.#count;
    const told = new Promise<void>((resolve, reject) => {
      this.#open.set(number, (problem) =>
        problem === null ? resolve() : reject(new Error(problem)),
      );
    });
    this.#send(number, data);
    return told;
  }

  settle(number: number, problem: string | null): void {
    this.#open.get(number)?.(problem);
    this.#open.delete(number);
  }

  /** Nobody is there any more who could say. */
  settleAll(): void {
    for (const number of [...this.#open.keys()]) this.settle(number, null);
  }
}
