/* old-sqlite <file> <statement>...: prints rows with | between their columns, and errors. */
#include <stdio.h>
#include "sqlite3.h"

static int print_row(void *unused, int count, char **values, char **names) {
  for (int i = 0; i < count; i++) printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
  printf("\n");
  return 0;
}

int main(int count, char **words) {
  sqlite3 *db;
  char *error = 0;
  if (sqlite3_open_v2(words[1], &db, SQLITE_OPEN_READWRITE, 0)) return 1;
  sqlite3_busy_timeout(db, 15000);
  for (int i = 2; i < count; i++) {
    if (sqlite3_exec(db, words[i], print_row, 0, &error)) printf("%s\n", error);
  }
  return sqlite3_close(db);
}
