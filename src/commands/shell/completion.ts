import { join } from 'node:path';
import { shellWord } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import type { Given } from '../table.ts';

type Shell = Given<'completion'>['shell'];

/** `runner completion`: what a shell needs to complete calls of this command. */
export function printCompletion({ stdout, distFolder }: CommandContext, { shell }: Given<'completion'>): void {
  stdout.write(scripts[shell](shellWord(join(distFolder, 'bin.cjs'))));
}

/**
 * Names can contain any character, so none of these scripts passes one to `eval`, or to `compgen -W`, which evaluates
 * it as well. If the typed word is no program (an alias, for example), the command that wrote the script answers.
 */
const scripts: Readonly<Record<Shell, (command: string) => string>> = {
  bash: (command) => `_folder_runner() {
  local line word runner=\${COMP_WORDS[0]/#\\~/$HOME}
  type -P -- "$runner" >/dev/null || runner=${command}
  COMPREPLY=()
  while IFS= read -r line; do
    printf -v word '%q' "\${line%%$'\\t'*}"
    COMPREPLY+=("$word")
  done < <("$runner" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == */ ]] && compopt -o nospace
}
complete -o default -F _folder_runner runner folder-runner
`,
  zsh: (command) => `#compdef runner folder-runner
_folder_runner() {
  local line runner=\${\${(Q)words[1]}/#\\~/$HOME}
  local -a values texts
  whence -p -- "$runner" >/dev/null || runner=${command}
  while IFS= read -r line; do
    values+=("\${line%%$'\\t'*}")
    texts+=("\${line/$'\\t'/  -- }")
  done < <("$runner" complete -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( $#values == 1 )) && [[ $values[1] == */ ]]; then compadd -U -S '' -a values
  elif (( $#values )); then compadd -U -l -d texts -a values
  else _files
  fi
}
if [[ "\${funcstack[1]}" == _runner ]]; then _folder_runner; else compdef _folder_runner runner folder-runner; fi
`,
  fish: (command) => `function __folder_runner
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l runner (string replace -r '^~' $HOME -- $words[1])
  type -fq -- $runner; or set runner ${command}
  set -l found ($runner complete -- $words[2..-1] "$current" 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c runner -f -a '(__folder_runner)'
complete -c folder-runner -f -a '(__folder_runner)'
`,
};
