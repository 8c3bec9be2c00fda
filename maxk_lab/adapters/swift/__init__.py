"""ms-swift: its plug-in lies alone, since ms-swift searches the folder of a plug-in for modules."""
