import { Answered } from '../../components/notice.tsx';
import { Page } from '../../components/page.tsx';
import { useAnswer } from '../../data.ts';

/** Is everything well, what failed, since when, why, what now. */
export function Overview() {
  return (
    <Page title="Overview">
      <Answered asked={useAnswer('/api/overview', {})}>
        {({ scripts }) => (
          <ul>
            {scripts.map(({ script }) => (
              <li key={script}>
                <bdi>{script}</bdi>
              </li>
            ))}
          </ul>
        )}
      </Answered>
    </Page>
  );
}
