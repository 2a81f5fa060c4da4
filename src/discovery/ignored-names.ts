interface NameRule {
  readonly form: RegExp;
  readonly reason: string;
}

/** Names that are no scripts, whatever the file holds. The first rule that fits gives the reason. */
const rules: readonly NameRule[] = [
  { form: /^node_modules$/, reason: 'node_modules holds packages, not scripts' },
  { form: /^\./, reason: 'hidden: its name begins with a dot' },
  { form: /^_/, reason: 'its name begins with _' },
  { form: /~$/, reason: 'a backup copy: its name ends in ~' },
  { form: /\.disabled$/, reason: 'disabled: its name ends in .disabled' },
  { form: /\.(?:bak|orig)$/, reason: 'a backup copy: its name ends in .bak or .orig' },
  { form: /\.swp$/, reason: 'the swap file of an editor' },
  { form: /\.new$/, reason: 'a new version not in use yet: its name ends in .new' },
  { form: /\.rpm[^.]*$/, reason: 'left behind by rpm' },
  { form: /\.dpkg-[^.]*$/, reason: 'left behind by dpkg' },
  { form: /\.d\.[cm]?ts$/, reason: 'a type declaration, which does nothing' },
  { form: /\.test\.[^.]+$/, reason: 'a test' },
  { form: /^readme(?:\..*)?$/i, reason: 'documentation' },
  { form: /\.(?:txt|md)$/i, reason: 'text' },
  { form: /\.json$/i, reason: 'data' },
];

/** Why a file or folder of this name is no script; null if its name does not forbid it. */
export function reasonToIgnore(name: string): string | null {
  return rules.find((rule) => rule.form.test(name))?.reason ?? null;
}
