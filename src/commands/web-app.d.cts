/**
 * Serves the dashboard from the startup file of a Node app of a hosting panel, until its process ends.
 *
 * @throws {TypeError} where `url` is missing
 *
 * @example
 * ```js
 * require('folder-runner/web')({ root: '/home/me/site', url: 'https://example.org/runner' });
 * ```
 */
declare function serve(app: serve.WebApp): void;

declare namespace serve {
  interface WebApp {
    /** The address for browsers: `https://example.org/runner`. */
    url: string;
    /** The folder that contains `jobs/`. Default: RUNNER_ROOT, otherwise the nearest one upward from the current folder. */
    root?: string;
  }
}

export = serve;
