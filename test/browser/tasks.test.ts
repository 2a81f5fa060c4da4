import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { changeLog, readJobs } from '../support/log.ts';
import { executable, writeFiles } from '../support/root.ts';
import { openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

/** Viewports of a phone, a tablet, a small laptop and a desk. */
const widths = [390, 820, 1100, 1440] as const;

const FAILED_MAILS = 145;

/** A site after a bad night: a script and many mails have failed, and one script is at work. */
async function makeSite(): Promise<string> {
  const { root } = await writeHistory({
    failing: { 'hourly/import-orders': brokenImport },
    running: { 'daily/send-newsletter': 65_000 },
  });
  writeFiles(root, {
    'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\nexit 0\n'),
    'jobs/hourly/clean-uploads.sh': executable('#!/bin/sh\necho 3 files are gone\nsleep 1\n'),
  });
  const queue = await openQueue({ root });
  const added = await Promise.all(
    Array.from({ length: FAILED_MAILS }, (_, number) => queue.add('mail/welcome', { number })),
  );
  const failed = added.map(Number);
  await queue.add('export', { customer: 4711 }, { runAt: '+2 hours' });
  await queue.add('export', { customer: 4712 }, { runAt: '+2 hours' });
  await queue.close();
  changeLog(
    root,
    `update jobs set state = 'failed', ready = null, reason = 'no address', finished_at = ? where id in (${failed})`,
    Date.now(),
  );
  return root;
}

/** The number of clicks that a task took; typing a text is none. */
class Hand {
  clicks = 0;
  readonly page: Page;

  constructor(page: Page) {
    this.page = page;
  }

  async click(target: Locator): Promise<void> {
    await target.click();
    this.clicks += 1;
  }

  async type(target: Locator, text: string): Promise<void> {
    await target.fill(text);
    await this.page.keyboard.press('Enter');
  }

  /** Goes to a page by the navigation: on a phone some stand behind "More". */
  async goTo(name: string): Promise<void> {
    const link = this.page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name });
    const more = this.page.getByRole('button', { name: 'More' });
    await link.or(more).first().waitFor();
    if (!(await link.isVisible())) await this.click(more);
    await this.click(link);
  }
}

/** More stops on the way would be no way. */
const MOST_TABS = 150;

/** A hand that never touches the mouse. */
class KeyHand extends Hand {
  override async click(target: Locator): Promise<void> {
    await this.#tabTo(target);
    await this.page.keyboard.press('Enter');
    this.clicks += 1;
  }

  override async type(target: Locator, text: string): Promise<void> {
    await this.#tabTo(target);
    await this.page.keyboard.type(text);
    await this.page.keyboard.press('Enter');
  }

  async #tabTo(target: Locator): Promise<void> {
    await target.waitFor();
    const wanted = target.and(this.page.locator(':focus'));
    for (let stops = 0; stops < MOST_TABS; stops += 1) {
      if ((await wanted.count()) > 0) return;
      await this.page.keyboard.press('Tab');
    }
    throw new Error(`The keyboard does not reach ${target}.`);
  }
}

interface Task {
  /** Clicks of the best peer. */
  readonly most: number;
  readonly take: (hand: Hand, root: string) => Promise<void>;
}

const tasks: Readonly<Record<string, Task>> = {
  'what failed last night, and why': {
    most: 0,
    take: async ({ page }) => {
      await page.getByText('orders.csv:3 does not have 3 columns').first().waitFor();
    },
  },
  'is it running, and slower than usual': {
    most: 0,
    take: async ({ page }) => {
      await page.locator('.running').getByText('longer than usual').waitFor();
    },
  },
  'run it now, and watch': {
    most: 2,
    take: async (hand) => {
      await hand.goTo('Scripts');
      await hand.click(hand.page.getByRole('button', { name: 'Run now hourly/clean-uploads' }));
      await hand.page.getByText('3 files are gone').waitFor();
    },
  },
  'retry all failed mails': {
    most: 4,
    take: async (hand, root) => {
      const { page } = hand;
      await hand.goTo('Queue');
      const row = page
        .getByRole('table', { name: 'Jobs by name' })
        .getByRole('row')
        .filter({ hasText: 'mail/welcome' });
      await hand.click(row.getByRole('link', { name: String(FAILED_MAILS), exact: true }));
      await hand.click(page.getByRole('button', { name: /that match/ }));
      await page.getByRole('dialog').getByText('no address').waitFor();
      await hand.click(page.getByRole('dialog').getByRole('button', { name: `Run ${FAILED_MAILS} jobs now` }));
      await expect
        .poll(() => readJobs(root).filter(({ name, state }) => name === 'mail/welcome' && state === 'failed').length)
        .toBe(0);
    },
  },
  'pause a tier for two hours': {
    most: 2,
    take: async (hand) => {
      await hand.click(hand.page.getByRole('button', { name: /^Pause hourly/ }));
      await hand.click(hand.page.getByRole('dialog').getByRole('button', { name: 'Pause' }));
      await hand.page.getByText('Hourly is paused for 2 hours.').waitFor();
    },
  },
  'find the job of customer 4711': {
    most: 1,
    take: async (hand) => {
      await hand.goTo('Queue');
      await hand.type(hand.page.getByLabel('Search in data'), '4711');
      await hand.page.locator('mark', { hasText: '4711' }).waitFor();
      expect(await hand.page.getByText('4712').count()).toBe(0);
    },
  },
  'compare a failed run with the last good one': {
    most: 2,
    take: async (hand) => {
      const { page } = hand;
      await hand.click(page.getByRole('link', { name: /^Output and details of run/ }).first());
      await hand.click(page.getByRole('button', { name: 'Show what differs' }));
      await expect.poll(() => page.url()).toMatch(/with=\d+/);
    },
  },
  'who changed this': {
    most: 2,
    take: async (hand) => {
      await hand.goTo('Activity');
      await hand.page.locator('.happenings').getByText('mail/welcome').first().waitFor();
    },
  },
  'what runs in the next hour': {
    most: 2,
    take: async (hand) => {
      await hand.goTo('Next');
      await hand.page.getByRole('heading', { name: 'Next', exact: true }).waitFor();
      await hand.page
        .locator('main')
        .getByRole('link', { name: /^hourly/ })
        .first()
        .waitFor();
    },
  },
  'how long jobs wait, and whether more workers help': {
    most: 1,
    take: async (hand) => {
      await hand.goTo('Queue');
      await hand.page
        .locator('main')
        .getByText(/no worker|workers? would|keeps? up/)
        .first()
        .waitFor();
    },
  },
};

/** Each task in a page of its own, for the hand that it makes of it. */
async function takeAll(width: number, makeHand: (page: Page) => Hand): Promise<void> {
  const root = await makeSite();
  const { url } = await startDashboard(root);
  for (const [name, { most, take }] of Object.entries(tasks)) {
    const page = await openPage(url);
    await page.setViewportSize({ width, height: 900 });
    const hand = makeHand(page);
    await take(hand, root).catch((error) => {
      throw new Error(name, { cause: error });
    });
    expect(hand.clicks, name).toBeLessThanOrEqual(most);
  }
}

test.each(widths)(
  'each task takes no more clicks than in the best peer on a page of %d pixels',
  async (width) => await takeAll(width, (page) => new Hand(page)),
  120_000,
);

test.each([390, 1440])(
  'the keyboard alone does each task on a page of %d pixels',
  async (width) => await takeAll(width, (page) => new KeyHand(page)),
  120_000,
);
