module.exports = { layout: null };
