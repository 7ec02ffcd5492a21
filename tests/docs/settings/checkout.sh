# A checkout in which nothing runs
