import { pathToFileURL } from 'node:url';
import type { FileState } from './file-state.ts';
import { type LoadedFiles, watchLoadedFiles } from './loaded-files.ts';
import { keepProcessState } from './restore-process.ts';

/** The handlers that a process has imported, and what their modules have set up in it. */
export class HandlerShelf {
  readonly #handlers = new Map<string, unknown>();
  readonly #files: LoadedFiles = watchLoadedFiles();
  #state = keepProcessState();

  /** What the module exports. It is imported once, and for all jobs; @throws as the import does. */
  async take(path: string): Promise<unknown> {
    if (!this.#handlers.has(path)) {
      this.#files.note(path);
      this.#handlers.set(path, await import(pathToFileURL(path).href));
      this.#state = keepProcessState();
    }
    return this.#handlers.get(path);
  }

  has(path: string): boolean {
    return this.#handlers.has(path);
  }

  /** Files that were imported since the last call; undefined: none. */
  takeLoaded(): readonly FileState[] | undefined {
    return this.#files.take();
  }

  /** Puts the process back to what it was before the last handler was called. */
  restore(): void {
    this.#state.restore();
  }
}
