import { describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

describe('output that a shell script sends elsewhere', () => {
  const warningsOf = async (script: string): Promise<readonly string[] | undefined> => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': script });
    return (await discover(root, defaultSettings, { tier: 'hourly' })).tiers[0]?.scripts[0]?.warnings;
  };

  test.each([
    ['exec >> own.log 2>&1', 1, 'exec >> own.log', '>> own.log'],
    ['./sync >> "$HOME/sync.log" 2>&1', 1, './sync', '>> "$HOME/sync.log" 2>&1'],
    ['#!/bin/bash\n./sync &>> own.log', 2, './sync', '&>> own.log'],
    ['cat <<EOF >> own.log 2>&1\ntext\nEOF', 1, 'cat', '>> own.log 2>&1'],
    ['cat > x <<EOF\ntext\nEOF\n./sync > own.log 2>&1', 4, './sync', '> own.log 2>&1'],
  ])('%j is told of', async (script, line, _, redirection) => {
    expect(await warningsOf(script)).toEqual([
      `jobs/hourly/a.sh:${line}: ${redirection} sends its output to a file of its own, so the activity log has none ` +
        'of it; remove that, and `npx folder-runner tail` and `npx folder-runner show` have it',
    ]);
  });

  test.each([
    "cat > /etc/cron.d/x <<'EOF'\n0 3 * * * root sync >> /var/log/sync 2>&1\nEOF\n",
    'cat > x <<-"END"\n./sync >> log 2>&1\nEND\n',
    'cat > x <<-END\n\t./sync >> log 2>&1\n\tEND\n',
    'cat > x <<\\END\nexec >> log 2>&1\nEND\n',
    "echo 'usage:\n  ./sync >> log 2>&1\n'\n",
    'echo "\n./sync >> log 2>&1\n"',
    '# ./sync >> log 2>&1',
    './sync # >> log 2>&1',
    './sync > /dev/null 2>&1',
    './sync > "/dev/null" 2>&1',
  ])('%j is not', async (script) => {
    expect(await warningsOf(script)).toEqual([]);
  });
});
