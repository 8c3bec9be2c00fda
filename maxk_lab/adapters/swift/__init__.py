"""ms-swift: its plug-in has its own folder, because ms-swift searches the folder for modules."""
