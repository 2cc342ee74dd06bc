"""Repairs of a workspace whose files or database are damaged, while none of its processes run.

`plan_repairs` says what would be done and what is lost; `Repairs.run` does it. Damaged files are
set aside below the home of the workspace, not deleted. What a backup has is taken from there. Of a
stream, rows of a lost file are read again from what still has their records; what nobody has is
recorded as lost. All other tables are archived again from the database.
"""

from moirae.repair.backup_files import BackupFiles
from moirae.repair.repairs import Repairs
from moirae.repair.step import RepairStep

__all__ = ["BackupFiles", "RepairStep", "Repairs"]
