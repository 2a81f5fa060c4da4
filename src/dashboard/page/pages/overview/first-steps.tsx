import { countOf } from '../../../../system/base/format.ts';
import { Icon } from '../../components/icon.tsx';
import { Empty } from '../../components/notice.tsx';
import { Name } from '../../components/text.tsx';
import { tell } from '../../components/toast.tsx';
import type { OverviewAnswer } from './judge.ts';

/** What to do first, where nothing ever ran. */
export function FirstSteps({ scripts, tiers }: OverviewAnswer) {
  const { length } = scripts;
  const tier = scripts.find((script) => script.tier !== 'queue' && script.presence !== 'disabled')?.tier ?? 'hourly';
  return (
    <Empty
      title={length === 0 ? 'There is no script yet' : `Nothing has run yet; ${countOf(length, 'script')} in jobs/`}
    >
      <ol class="steps">
        {length === 0 && (
          <li>
            <p>Put a script into jobs/hourly, or let an example be written:</p>
            <Command text="npx folder-runner init" />
          </li>
        )}
        <li>
          <p>Run it once to see that it works; it will appear here:</p>
          <Command text={`npx folder-runner ${tier}`} />
        </li>
        <li>
          <p>Let cron run it from now on:</p>
          <Command text="npx folder-runner cron --install" />
        </li>
        <li>
          <p>If something does not work as it should, let the host be checked:</p>
          <Command text="npx folder-runner doctor" />
        </li>
      </ol>
      {tiers.length > 0 && (
        <p class="quiet">
          Tiers here:{' '}
          {tiers.map((each, index) => (
            <>
              {index > 0 && ', '}
              <Name text={each.tier} />
            </>
          ))}
        </p>
      )}
    </Empty>
  );
}

/** A command for a shell, with a button that copies it. */
function Command({ text }: { readonly text: string }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell(`Copied: ${text}`);
    } catch {
      // Browsers refuse it on pages without TLS.
      tell('This browser does not let the page copy; select the command instead.', { isBad: true });
    }
  };
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" aria-label={`Copy ${text}`} onClick={copy}>
        <Icon name="copy" />
      </button>
    </span>
  );
}
