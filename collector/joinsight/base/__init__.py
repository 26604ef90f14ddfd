"""What every other folder may use: errors, files, units, times."""
